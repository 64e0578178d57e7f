"""Conditions on what is published, delivered or asked: the fabric's one algebra, kept to what a stranger
may write.

A certificate comes from outside, and whoever verifies it works for whoever wrote it. So patterns that can
be made to run for ever, and conditions of any size, are not among the words here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from ipaddress import ip_network
from math import isfinite
from typing import Any, TypeAlias

import msgspec

from authz.predicate import (
    EVENT,
    REQUEST,
    And,
    AnyComparison,
    Cidr,
    Contains,
    Equal,
    Exists,
    In,
    Kind,
    Layout,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Relate,
    Scalar,
    Subset,
    Suffix,
    compile_predicate,
    conjuncts,
    covers,
    map_paths,
    paths,
    satisfiable,
    strict,
)
from authz.request import Request
from authz.spki.errors import InvalidCapability
from authz.spki.resource import Kind as ResourceKind

Content: TypeAlias = Mapping[str, object] | Request
"""An event's attributes by name, or the request that is to be decided."""

MAX_COMPARISONS = 16
MAX_CONSTANTS = 64
MAX_DEPTH = 8
_WORDS = (Exists, Kind, Equal, Order, In, Prefix, Suffix, Contains, Cidr, Subset, Overlaps, Relate)
_INTEGERS = range(-(2**63), 2**64)
_PLACES = range(-(2**16), 2**16)

_encode = msgspec.msgpack.Encoder().encode


def conjoin(terms: tuple[Predicate, ...]) -> tuple[Predicate, ...] | None:
    """All terms at once, in the one order, without those that another implies; None if they exclude each
    other.

    Terms are weighed two by two: then it makes no difference in which order conjunctions meet.
    """
    if not terms:
        return ()
    measure(terms, grants=2)
    return _conjoin(frozenset(each for term in terms for each in conjuncts(term)))


@lru_cache(maxsize=4096)
def _conjoin(terms: frozenset[Predicate]) -> tuple[Predicate, ...] | None:
    if not satisfiable(And(tuple(terms))):
        return None
    kept = (term for term in terms if not any(_supersedes(other, term) for other in terms))
    return tuple(sorted(kept, key=_encode))


def check(kind: ResourceKind, where: tuple[Predicate, ...]) -> None:
    """Raise InvalidCapability or InvalidPredicate for conditions that cannot stand in a grant, or not so."""
    if not where:
        return
    if kind not in _LAYOUTS:
        raise InvalidCapability(
            "where", f"must not stand with a {kind}: only events and requests have content"
        )
    measure(where)
    holds(kind, where)
    if where != conjoin(where):
        raise InvalidCapability("where", "must be in normal form: make the grant with `Grant.of`")


def measure(terms: tuple[Predicate, ...], grants: int = 1) -> None:
    """Raise InvalidCapability for more than `grants` grants may hold, or for what none may hold."""
    comparisons = [each for term in terms for each in _comparisons(term, MAX_DEPTH)]
    constants = [each for comparison in comparisons for each in _constants(comparison)]
    if len(comparisons) > grants * MAX_COMPARISONS or len(constants) > grants * MAX_CONSTANTS:
        problem = (
            f"must have at most {MAX_COMPARISONS} comparisons with {MAX_CONSTANTS} constants in one grant"
        )
        raise InvalidCapability("where", problem)
    for constant in constants:
        _check_constant(constant)
    for comparison in comparisons:
        for path in paths(comparison):
            _check_path(path)
        if isinstance(comparison, Cidr):
            _check_network(comparison.network)


@lru_cache(maxsize=4096)
def holds(kind: ResourceKind, where: tuple[Predicate, ...]) -> Callable[[Content], bool]:
    """The function that says whether all terms hold of a piece of content.

    What is missing opens nothing: `not` of a comparison with it is false too. The terms stay as they were signed.
    """
    return compile_predicate(strict(And(where)), _LAYOUTS.get(kind, EVENT))


def about_events(term: Predicate) -> Predicate:
    """The same with each bare name taken for an attribute of the event."""
    return map_paths(term, _of_event)


def _of_event(path: Path) -> Path:
    return path if path.root else Path("event", path.keys)


_LAYOUTS: dict[ResourceKind, Layout[Any]] = {ResourceKind.TYPE: EVENT, ResourceKind.OBJECT: REQUEST}


def _supersedes(other: Predicate, term: Predicate) -> bool:
    """Whether `term` says nothing beside `other`; of two that say the same, the first in order is kept."""
    if other == term or not _covers(term, other):
        return False
    return not _covers(other, term) or _encode(other) < _encode(term)


def _covers(wide: Predicate, narrow: Predicate) -> bool:
    """As the terms are written, and as they are meant."""
    return covers(wide, narrow) and covers(strict(wide), strict(narrow))


def _comparisons(term: Predicate, depth: int) -> Iterator[AnyComparison]:
    if depth == 0:
        raise InvalidCapability("where", f"must be nested at most {MAX_DEPTH} levels deep")
    if isinstance(term, And | Or):
        if len(term.terms) == 1:
            raise InvalidCapability("where", "must join at least two terms by `and` or `or`")
        for each in term.terms:
            yield from _comparisons(each, depth - 1)
    elif isinstance(term, Not):
        if isinstance(term.term, Not):
            raise InvalidCapability("where", "must not negate twice: leave both out")
        yield from _comparisons(term.term, depth - 1)
    elif isinstance(term, _WORDS):
        yield term
    else:
        raise InvalidCapability("where", f"`{term}` is not among the tests a capability may ask for")


def _constants(comparison: AnyComparison) -> tuple[Scalar, ...]:
    if isinstance(comparison, In | Subset | Overlaps):
        return comparison.values
    return (comparison.value,) if isinstance(comparison, Equal | Order) else ()


def _check_constant(value: Scalar) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise InvalidCapability("where", f"`{value}` must be a finite number")
    if isinstance(value, int) and value not in _INTEGERS:
        raise InvalidCapability("where", f"`{value}` must fit in 64 bits")


def _check_path(path: Path) -> None:
    if any(isinstance(key, int) and key not in _PLACES for key in path.keys):
        raise InvalidCapability("where", f"`{path}` must count no further than {_PLACES[-1]} places")


def _check_network(network: str) -> None:
    try:
        ip_network(network)
    except ValueError:
        raise InvalidCapability("where", f"`{network}` must be a network such as `10.0.0.0/8`") from None
