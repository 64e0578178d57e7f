"""An index of conditions: which hold of a request, looking only at those that could.

A tree. At each node every item is filed under the rarest of its guards; a request is looked up in each
dimension that is in use, and only what is found there is tried, without the terms that finding it has
settled. Where many items still share a key, the node below divides them by another dimension. Invariant: an
item is reached by every request of which its condition holds, so the answer is that of trying them all.

A tree can be packed: the numbers of the items, filed. What lies below a key of a packed tree is compiled when a request
first finds it, so that a tree of very many items is there at once.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

import msgspec

from authz.predicate import REQUEST, And, Predicate
from authz.predicate.compiler import Emitter
from authz.predicate.values import key
from authz.request import Request
from pdp.engine.access_predicates import (
    Dimension,
    Guards,
    Table,
    best_dimension,
    fits,
    guards,
    settles,
    table,
)

T = TypeVar("T")
Node = TypeVar("Node")
Search: TypeAlias = Callable[[Request, Callable[..., object]], object]
Numbered: TypeAlias = Callable[[int], tuple[Predicate, T]]
"""The condition and the item with a number."""

FEWEST = 3
"""Minimum items for an index: below it, trying each costs no more than a lookup."""
INLINE = 8
"""Maximum items that one compiled function tries."""


class Index(Generic[T]):
    """Items by the conditions under which they matter."""

    def __init__(self, items: Iterable[tuple[Predicate, T]]) -> None:
        entries = [_Entry(_terms(condition), guards(condition), item) for condition, item in items]
        self.search: Callable[[Request, Callable[[T], object]], object] = _divide(entries, frozenset(), _node)
        """Hands each item whose condition holds to the second argument, in no order, perhaps twice."""

    @classmethod
    def opened(cls, packed: bytes, items: Numbered[T]) -> Index[T]:
        """The index that was packed, of the items with these numbers."""
        index: Index[T] = cls.__new__(cls)
        index.search = _Opener(items, ()).open(packed)
        return index


def check_condition(condition: Predicate) -> None:
    """Raise InvalidPredicate for a condition that cannot be compiled."""
    Emitter(REQUEST).term(condition)


def pack_index(conditions: Iterable[tuple[int, Predicate]]) -> bytes:
    """The index of items that are given by number. Raises InvalidPredicate for a condition that cannot be meant."""
    entries = []
    for number, condition in conditions:
        check_condition(condition)
        entries.append(_Entry(_terms(condition), guards(condition), number))
    return _divide(entries, frozenset(), _pack)


@dataclass(frozen=True, slots=True)
class _Entry:
    terms: tuple[Predicate, ...]
    """What is still to be tested: all of these."""
    guards: Guards
    item: object


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """A node of a tree as data."""

    rest: bytes
    """The numbers of the items to be tried one by one."""
    children: list[Table]
    """What is below each key, packed."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


def _pack(rest: Sequence[_Entry], children: Mapping[Dimension, dict[object, bytes]]) -> bytes:
    numbers = array("I", [cast("int", each.item) for each in rest]).tobytes()
    return _encode(_Packed(numbers, [table(*each) for each in children.items()]))


class _Opener:
    """Compiles nodes of a packed tree that lie below some keys."""

    def __init__(self, items: Numbered[object], above: tuple[tuple[Dimension, object], ...]) -> None:
        self._items = items
        self._above = above

    def open(self, packed: bytes) -> Search:
        node = _decode(packed)
        rest = [self._entry(number) for number in array("I", node.rest)]
        return _node(rest, {each.dimension: _Later(self, each) for each in node.children})

    def _entry(self, number: int) -> _Entry:
        condition, item = self._items(number)
        terms = [term for term in _terms(condition) if not any(settles(*each, term) for each in self._above)]
        return _Entry(tuple(terms), {}, item)

    def below(self, dimension: Dimension, found: object) -> _Opener:
        return _Opener(self._items, (*self._above, (dimension, found)))


class _Later:
    """What is below the keys of a packed node: data, which garbage collection passes over, until it is reached."""

    def __init__(self, opener: _Opener, filed: Table) -> None:
        self.packed = dict(zip(map(key, filed.keys), filed.values, strict=True))
        self.opened: dict[object, Search] = {}
        self._opener = opener
        self._dimension = filed.dimension

    def open(self, found: object) -> Search:
        """Compile what is below a key that is reached for the first time."""
        search = self._opener.below(self._dimension, found).open(self.packed[found])
        self.opened[found] = search
        del self.packed[found]
        return search


def _terms(condition: Predicate) -> tuple[Predicate, ...]:
    return condition.terms if isinstance(condition, And) else (condition,)


def _divide(
    entries: Sequence[_Entry],
    used: frozenset[Dimension],
    make: Callable[[Sequence[_Entry], Mapping[Dimension, dict[object, Node]]], Node],
) -> Node:
    """File entries as long as that saves more than the lookup costs; what is left is tried one by one."""
    children: dict[Dimension, dict[object, Node]] = {}
    rest = list(entries)
    while len(rest) >= FEWEST and (
        dimension := best_dimension((each.guards for each in rest), used | children.keys())
    ):
        filed = [each for each in rest if fits(each.guards, dimension)]
        rest = [each for each in rest if not fits(each.guards, dimension)]
        below = used | {dimension}
        children[dimension] = {
            found: _divide(each, below, make) for found, each in _buckets(filed, dimension).items()
        }
    return make(rest, children)


def _buckets(entries: Sequence[_Entry], dimension: Dimension) -> dict[object, list[_Entry]]:
    buckets: defaultdict[object, list[_Entry]] = defaultdict(list)
    for entry in entries:
        for found in entry.guards[dimension]:
            left = tuple(term for term in entry.terms if not settles(dimension, found, term))
            buckets[found].append(_Entry(left, entry.guards, entry.item))
    return buckets


def _node(rest: Sequence[_Entry], children: Mapping[Dimension, dict[object, Search] | _Later]) -> Search:
    """The function that tries the rest and looks up the others."""
    emitter = Emitter(REQUEST)
    lines: list[str] = []
    if len(rest) > INLINE:
        lines.append(f"for search in {emitter.constant(_batches(rest))}: search(it, add)")
    else:
        lines += [f"if {emitter.term(And(each.terms))}: add({emitter.constant(each.item)})" for each in rest]
    for dimension, below in children.items():
        lines += _lookup(emitter, dimension, below)
    return cast("Search", emitter.function("it, add", lines or ["pass"]))


def _batches(entries: Sequence[_Entry]) -> tuple[Search, ...]:
    """Entries of like shape together, so that few kinds of batches have to be compiled."""
    alike = sorted(entries, key=lambda each: Emitter(REQUEST).term(And(each.terms)))
    return tuple(_node(alike[n : n + INLINE], {}) for n in range(0, len(alike), INLINE))


def _lookup(emitter: Emitter, dimension: Dimension, below: dict[object, Search] | _Later) -> list[str]:
    later = below if isinstance(below, _Later) else None
    table = below if isinstance(below, dict) else below.packed
    get = emitter.constant(below.get if isinstance(below, dict) else below.opened.get)
    value = emitter.read(dimension.path)

    def visit(found: str, indent: str) -> list[str]:
        lines = [f"{indent}if (found := {get}({found})) is not None: found(it, add)"]
        if later is not None:
            packed, opening = emitter.constant(later.packed), emitter.constant(later.open)
            lines.append(f"{indent}elif {found} in {packed}: {opening}({found})(it, add)")
        return lines

    texts = all(isinstance(each, str) for each in table)
    if dimension.kind == "under":
        lengths = [emitter.constant(each) for each in sorted({len(str(found)) for found in table})]
        tries = [line for length in lengths for line in visit(f"v[:{length}]", " ")]
        return [f"if isinstance(v := {value}, str):", *tries]
    if dimension.kind == "has":
        each = [" for each in v:", *([] if texts else ["  each = key(each)"])]
        return [
            f"if isinstance(v := {value}, LISTS):",
            *each,
            *(["  if isinstance(each, str):", *visit("each", "   ")] if texts else visit("each", "  ")),
        ]
    if texts:
        return [f"if isinstance(v := {value}, str):", *visit("v", " ")]
    return [f"v = key({value})", *visit("v", "")]
