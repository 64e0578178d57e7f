"""A member's side of a one-way function tree: its way from leaf to root, kept up by what the manager tells."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pubsub_core.key_groups.oft import Rekey, Seat, Step, blind, check_of, mix, secret_of, turn, unwrap
from pubsub_core.keys import CannotOpen, OutOfStep


class Member:
    """What one member knows: the keys on its way to the root, and the blinds beside it."""

    def __init__(self, own_key: bytes, seat: Seat) -> None:
        """`own_key` is shared with the manager alone."""
        self._own_key = own_key
        self.version = seat.version
        self._way = list(seat.way)

    @property
    def secret(self) -> bytes:
        """The group's secret in this version."""
        return secret_of(self._way[-1].key, self.version)

    def apply(self, rekey: Rekey) -> None:
        """Follow one change of the tree. Raises OutOfStep, and stays as it is, if that is not possible."""
        if rekey.version != self.version + 1:
            raise OutOfStep(self.version, rekey.version)
        try:
            way = _renew(_rearrange(map(_turn, self._way), rekey), self._own_key, rekey)
        except CannotOpen:
            raise OutOfStep(self.version, rekey.version) from None
        if check_of(secret_of(way[-1].key, rekey.version)) != rekey.check:
            raise OutOfStep(self.version, rekey.version)
        self.version, self._way = rekey.version, way


def _turn(step: Step) -> Step:
    return replace(step, blinded=turn(step.blinded), sibling=turn(step.sibling) if step.sibling else b"")


def _rearrange(steps: Iterable[Step], rekey: Rekey) -> list[Step]:
    """The way after some have left and others joined; what is new on it has no keys yet."""
    way = list(steps)
    for gone in rekey.collapsed:
        at = next((at for at, step in enumerate(way) if at and step.node == gone), 0)
        if at:
            heir, place = way[at - 1], way.pop(at)
            way[at - 1] = replace(heir, left=place.left, sibling=place.sibling)
    for leaf, node in rekey.split:
        if way[0].node == leaf:
            way.insert(1, replace(way[0], node=node, key=b"", blinded=b""))
            way[0] = replace(way[0], left=True, sibling=b"")
    return way


def _renew(way: list[Step], own_key: bytes, rekey: Rekey) -> list[Step]:
    """The way with its new keys, from below: a key is new if one of the two below it is."""
    leaves = {box.node: box.data for box in rekey.leaves}
    blinds = {box.node: box.data for box in rekey.blinds}
    leaf = leaves.get(way[0].node)
    key = unwrap(own_key, rekey.version, leaf) if leaf is not None else None
    renewed = []
    for step in way:
        if key is not None:
            step = replace(step, key=key, blinded=blind(key))
        told = blinds.get(step.node)
        if told is not None:
            step = replace(step, sibling=unwrap(step.key, rekey.version, told))
        key = _parent(step) if key is not None or told is not None else None
        renewed.append(step)
    return renewed


def _parent(step: Step) -> bytes:
    return mix(step.blinded, step.sibling) if step.left else mix(step.sibling, step.blinded)
