"""Which of many conditions hold of a request, looking only at those that could.

A tree. At each node every item is filed under the rarest of its guards; a request is looked up in each
dimension that is in use, and only what is found there is tried, without the terms that finding it has
settled. Where many items still share a key, the node below divides them by another dimension. Invariant: an
item is reached by every request of which its condition holds, so the answer is that of trying them all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar, cast

from authz.predicate import REQUEST, And, Predicate
from authz.predicate.compiler import Emitter
from authz.request import Request
from pdp.guards import Dimension, Guards, best_dimension, fits, guards, settles

T = TypeVar("T")
Search: TypeAlias = Callable[[Request, Callable[..., object]], object]

INLINE = 8
"""How many items one compiled function tries, rather than one function each."""


class Index(Generic[T]):
    """Items by the conditions under which they matter."""

    def __init__(self, items: Iterable[tuple[Predicate, T]]) -> None:
        entries = [_Entry(_terms(condition), guards(condition), item) for condition, item in items]
        self.search: Callable[[Request, Callable[[T], object]], object] = _divide(entries, frozenset())
        """Hands each item whose condition holds to the second argument, in no order, perhaps twice."""


@dataclass(frozen=True, slots=True)
class _Entry:
    terms: tuple[Predicate, ...]
    """What is still to be tested: all of these."""
    guards: Guards
    item: object


def _terms(condition: Predicate) -> tuple[Predicate, ...]:
    return condition.terms if isinstance(condition, And) else (condition,)


def _divide(entries: Sequence[_Entry], used: frozenset[Dimension]) -> Search:
    """File entries as long as that saves more than the lookup costs; try the rest one by one."""
    children: dict[Dimension, dict[object, Search]] = {}
    rest = list(entries)
    while dimension := best_dimension((each.guards for each in rest), used | children.keys()):
        filed = [each for each in rest if fits(each.guards, dimension)]
        rest = [each for each in rest if not fits(each.guards, dimension)]
        below = used | {dimension}
        children[dimension] = {
            found: _divide(each, below) for found, each in _buckets(filed, dimension).items()
        }
    return _node(rest, children)


def _buckets(entries: Sequence[_Entry], dimension: Dimension) -> dict[object, list[_Entry]]:
    buckets: defaultdict[object, list[_Entry]] = defaultdict(list)
    for entry in entries:
        for found in entry.guards[dimension]:
            left = tuple(term for term in entry.terms if not settles(dimension, found, term))
            buckets[found].append(replace(entry, terms=left))
    return buckets


def _node(rest: Sequence[_Entry], children: Mapping[Dimension, dict[object, Search]]) -> Search:
    """The function that tries the rest and looks up the others."""
    emitter = Emitter(REQUEST)
    lines: list[str] = []
    if len(rest) > INLINE:
        lines.append(f"for search in {emitter.constant(_batches(rest))}: search(it, add)")
    else:
        lines += [f"if {emitter.term(And(each.terms))}: add({emitter.constant(each.item)})" for each in rest]
    for dimension, table in children.items():
        lines += _lookup(emitter, dimension, table)
    return cast("Search", emitter.function("it, add", lines or ["pass"]))


def _batches(entries: Sequence[_Entry]) -> tuple[Search, ...]:
    """Entries of like shape together, so that few kinds of batches have to be compiled."""
    alike = sorted(entries, key=lambda each: Emitter(REQUEST).term(And(each.terms)))
    return tuple(_node(alike[n : n + INLINE], {}) for n in range(0, len(alike), INLINE))


def _lookup(emitter: Emitter, dimension: Dimension, table: dict[object, Search]) -> list[str]:
    value, get = emitter.read(dimension.path), emitter.constant(table.get)
    visit = "is not None: found(it, add)"
    if dimension.kind == "under":
        lengths = [emitter.constant(each) for each in sorted({len(str(found)) for found in table})]
        tries = [f" if (found := {get}(v[:{length}])) {visit}" for length in lengths]
        return [f"if isinstance(v := {value}, str):", *tries]
    texts = all(isinstance(each, str) for each in table)
    if dimension.kind == "has":
        found = (
            f"isinstance(each, str) and (found := {get}(each))" if texts else f"(found := {get}(key(each)))"
        )
        return [f"if isinstance(v := {value}, LISTS):", " for each in v:", f"  if {found} {visit}"]
    if texts:
        return [f"if isinstance(v := {value}, str) and (found := {get}(v)) {visit}"]
    return [f"if (found := {get}(key({value}))) {visit}"]
