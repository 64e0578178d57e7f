"""The manager's side of a one-way function tree: it knows every key, and says what each change means to whom."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from pubsub_core.key_groups.oft import (
    Box,
    Draw,
    Rekey,
    Seat,
    Step,
    blind,
    check_of,
    mix,
    secret_of,
    turn,
    wrap,
)
from pubsub_core.keys import KEY_BYTES


class NodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A node as it is stored; inner nodes are followed by their left and right subtrees."""

    id: int
    key: bytes
    since: int
    member: str | None = None


class TreeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A whole tree as it is stored."""

    version: int = 0
    next_id: int = 1
    nodes: tuple[NodeRecord, ...] = ()


@dataclass(slots=True, eq=False)
class _Node:
    id: int
    member: str | None = None
    key: bytes = b""
    since: int = 0
    """The version in which it got its key."""
    blinded: bytes = b""
    turned: int = 0
    """The version in which `blinded` is its blind."""
    parent: _Node | None = None
    children: list[_Node] = field(default_factory=list)
    shallow: int = 0
    """How far down its nearest leaf is."""
    stands: bool = True
    """Whether it is still part of the tree."""

    def set_key(self, key: bytes, version: int) -> None:
        self.key, self.since = key, version
        self.blinded, self.turned = blind(key), version

    def blind_at(self, version: int) -> bytes:
        """Its blind in this version, which is never older than one asked for before."""
        while self.turned < version:
            self.blinded = turn(self.blinded)
            self.turned += 1
        return self.blinded

    @property
    def sibling(self) -> _Node:
        assert self.parent is not None
        left, right = self.parent.children
        return right if self is left else left

    def ancestors(self) -> Iterator[_Node]:
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def measure(self) -> None:
        """Say how far its nearest leaf is, and have those above do so."""
        for node in (self, *self.ancestors()):
            node.shallow = 1 + min(child.shallow for child in node.children) if node.children else 0

    def nearest_leaf(self) -> _Node:
        node = self
        while node.children:
            node = min(node.children, key=lambda child: child.shallow)
        return node


class Tree:
    """The members of one group at the leaves of a tree of keys."""

    def __init__(self, draw: Draw = os.urandom) -> None:
        self.version = 0
        self._draw = draw
        self._next_id = 1
        self._root: _Node | None = None
        self._leaves: dict[str, _Node] = {}

    def __contains__(self, member: str) -> bool:
        return member in self._leaves

    def __len__(self) -> int:
        return len(self._leaves)

    @property
    def members(self) -> frozenset[str]:
        return frozenset(self._leaves)

    @property
    def secret(self) -> bytes:
        """The group's secret in this version. There is none without members."""
        return secret_of(self._root.key, self.version) if self._root is not None else b""

    def rekey(self, keys: Mapping[str, bytes], leave: Iterable[str] = (), join: Iterable[str] = ()) -> Rekey:
        """Let some members leave and others join, and give the group a secret that only those know who remain.

        With neither it refreshes the secret. `keys` are the members' own keys, shared with the manager alone.
        """
        self.version += 1
        join = tuple(join)
        collapsed, stale = self._remove(leave)
        renewed = [node.nearest_leaf() for node in stale if node.stands]
        split = self._insert(join)
        if not renewed and not split and self._root is not None:
            renewed = [self._oldest_leaf()]
        fresh = [*dict.fromkeys(renewed), *(self._leaves[member] for member in join)]
        for leaf in fresh:
            leaf.set_key(self._draw(KEY_BYTES), self.version)
        changed = self._recompute(fresh)
        return Rekey(
            self.version,
            tuple(collapsed),
            tuple(split),
            tuple(self._leaf_box(leaf, keys) for leaf in dict.fromkeys(renewed)),
            tuple(self._blind_box(node) for node in changed if node.parent is not None),
            check_of(self.secret),
        )

    def seat(self, member: str) -> Seat:
        """What a member has to know now."""
        leaf = self._leaves[member]
        return Seat(self.version, tuple(map(self._step, (leaf, *leaf.ancestors()))))

    def record(self) -> TreeRecord:
        return TreeRecord(self.version, self._next_id, tuple(_records(self._root)))

    @classmethod
    def restore(cls, record: TreeRecord, draw: Draw = os.urandom) -> Tree:
        tree = cls(draw)
        tree.version, tree._next_id = record.version, record.next_id
        if record.nodes:
            tree._root = tree._build(iter(record.nodes))
        return tree

    def _build(self, records: Iterator[NodeRecord]) -> _Node:
        record = next(records)
        node = _Node(record.id, record.member)
        node.set_key(record.key, record.since)
        if record.member is not None:
            self._leaves[record.member] = node
            return node
        node.children = [self._build(records), self._build(records)]
        for child in node.children:
            child.parent = node
        node.shallow = 1 + min(child.shallow for child in node.children)
        return node

    def _remove(self, members: Iterable[str]) -> tuple[list[int], list[_Node]]:
        """Take leaves out; returns the nodes that went with them, and those below which someone must get a new key."""
        collapsed, stale = [], []
        for member in members:
            leaf = self._leaves.pop(member)
            gone = leaf.parent
            if gone is None:
                self._root = None
                continue
            heir = leaf.sibling
            self._put(heir, gone)
            leaf.stands = gone.stands = False
            collapsed.append(gone.id)
            stale.append(heir)
        return collapsed, stale

    def _insert(self, members: Iterable[str]) -> list[tuple[int, int]]:
        split = []
        for member in members:
            leaf = self._leaves[member] = _Node(self._id(), member)
            if self._root is None:
                self._root = leaf
                continue
            beside = self._root.nearest_leaf()
            node = _Node(self._id())
            self._put(node, beside)
            node.children = [beside, leaf]
            beside.parent = leaf.parent = node
            node.measure()
            split.append((beside.id, node.id))
        return split

    def _put(self, node: _Node, place: _Node) -> None:
        """Have a node stand where another one stood."""
        node.parent = place.parent
        if place.parent is None:
            self._root = node
        else:
            siblings = place.parent.children
            siblings[siblings.index(place)] = node
            place.parent.measure()

    def _oldest_leaf(self) -> _Node:
        return min(self._leaves.values(), key=lambda leaf: leaf.since)

    def _recompute(self, fresh: list[_Node]) -> list[_Node]:
        """Compute the keys above the leaves anew, from below; returns all nodes whose keys are new."""
        depths = {leaf: sum(1 for _ in leaf.ancestors()) for leaf in fresh}
        above = {
            node: depth - up for leaf, depth in depths.items() for up, node in enumerate(leaf.ancestors(), 1)
        }
        for node in sorted(above, key=above.__getitem__, reverse=True):
            left, right = (child.blind_at(self.version) for child in node.children)
            node.set_key(mix(left, right), self.version)
        return [*fresh, *above]

    def _leaf_box(self, leaf: _Node, keys: Mapping[str, bytes]) -> Box:
        assert leaf.member is not None
        return Box(leaf.id, wrap(keys[leaf.member], self.version, leaf.key, self._draw))

    def _blind_box(self, node: _Node) -> Box:
        sibling = node.sibling
        return Box(sibling.id, wrap(sibling.key, self.version, node.blind_at(self.version), self._draw))

    def _step(self, node: _Node) -> Step:
        own = node.blind_at(self.version)
        if node.parent is None:
            return Step(node.id, node.key, own)
        left = node is node.parent.children[0]
        return Step(node.id, node.key, own, left, node.sibling.blind_at(self.version))

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


def _records(node: _Node | None) -> Iterator[NodeRecord]:
    if node is not None:
        yield NodeRecord(node.id, node.key, node.since, node.member)
        for child in node.children:
            yield from _records(child)
