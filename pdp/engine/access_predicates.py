"""Guards (access predicates): necessary conditions of a condition, by which it can be looked up instead of tried.

A guard names a dimension of the request and keys in it; the condition can hold only of requests that have
one of the keys there. A request has one key in `is` (the value at the path), one for each prefix of the
value in `under`, and one for each element of the list in `has`.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple, TypeAlias

import msgspec

from authz.predicate import And, Equal, Glob, In, Or, Overlaps, Path, Predicate, Prefix, Scalar
from authz.predicate.values import key, keys, scalar


class Dimension(NamedTuple):
    kind: typing.Literal["is", "has", "under"]
    path: Path


Guards: TypeAlias = Mapping[Dimension, frozenset[object]]
"""For each dimension the keys, one of which must match. Without keys the condition never holds."""


class Table(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is filed in one dimension, as data: the keys, and what stands under each."""

    dimension: Dimension
    keys: list[Scalar]
    values: list[bytes]


def table(dimension: Dimension, filed: Mapping[object, bytes]) -> Table:
    return Table(dimension, list(map(scalar, filed)), list(filed.values()))


MANY_KEYS = 64
"""Maximum keys by which one condition is indexed."""
LOOKUP_COST = {"is": 1.5, "has": 4.0, "under": 1.0}
"""Cost of a lookup, in conditions tried; for prefixes, for each distinct length."""


def guards(condition: Predicate) -> Guards:
    match condition:
        case Equal(path, value, fold=False):
            return _values(path, (value,))
        case In(path, values):
            return _values(path, values)
        case Prefix(path, value, fold=False) if value:
            return {Dimension("under", path): frozenset({value})}
        case Glob(path, pattern):
            start = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
            return {Dimension("under", path): frozenset({start})} if start else {}
        case Overlaps(path, values):
            return {Dimension("has", path): keys(values)}
        case And(terms):
            return _all(map(guards, terms))
        case Or(terms):
            return _any([guards(each) for each in terms])
    return {}


def _values(path: Path, values: tuple[Scalar, ...]) -> Guards:
    needed = keys(values)
    found = {Dimension("is", path): needed}
    if values and all(isinstance(each, str) and each for each in values):
        found[Dimension("under", path)] = needed
    return found


def _all(several: Iterable[Guards]) -> Guards:
    """Every guard of every term stands; of two in one dimension the narrower."""
    found: dict[Dimension, frozenset[object]] = {}
    for each in several:
        for dimension, needed in each.items():
            if dimension not in found or len(needed) < len(found[dimension]):
                found[dimension] = needed
    return found


def _any(several: list[Guards]) -> Guards:
    """A guard stands if each branch has one in that dimension; one key of any of them is then needed."""
    if not several:
        return {Dimension("is", Path("action")): frozenset()}
    shared = set(several[0]).intersection(*several[1:])
    return {dimension: frozenset().union(*(each[dimension] for each in several)) for dimension in shared}


def settles(dimension: Dimension, found: object, term: Predicate) -> bool:
    """Whether a term needs no test any more once its key was found in the dimension."""
    match term:
        case Equal(path, value, fold=False):
            return dimension == ("is", path) and key(value) == found
        case In(path, values):
            return dimension == ("is", path) and found in keys(values)
        case Prefix(path, value, fold=False):
            return dimension == ("under", path) and value == found
        case Overlaps(path, values):
            return dimension == ("has", path) and found in keys(values)
    return False


def fits(found: Guards, dimension: Dimension) -> bool:
    return dimension in found and len(found[dimension]) <= MANY_KEYS


def best_dimension(several: Iterable[Guards], used: Set[Dimension]) -> Dimension | None:
    """The dimension in which filing by these guards saves most; None if it saves nothing in any.

    What a request will find is guessed from how the guards lie: keys are looked up as often as they are used, so
    the average is over guards, not over keys.
    """
    sizes: dict[Dimension, dict[object, int]] = {}
    filed: dict[Dimension, int] = {}
    for each in several:
        for dimension, found in each.items():
            if len(found) <= MANY_KEYS:
                shared = sizes.setdefault(dimension, {})
                for one in found:
                    shared[one] = shared.get(one, 0) + 1
                filed[dimension] = filed.get(dimension, 0) + 1
    best, most = None, 0.0
    for dimension, count in filed.items():
        # At least one is found, by one lookup: so much cannot be saved.
        if count - 1 - LOOKUP_COST[dimension.kind] > most and dimension not in used:
            saved = count - _cost(dimension, sizes[dimension])
            if saved > most:
                best, most = dimension, saved
    return best


def _cost(dimension: Dimension, shared: Mapping[object, int]) -> float:
    """What a request pays for a lookup, and for trying what it finds."""
    found = sum(size * size for size in shared.values()) / (sum(shared.values()) or 1)
    lookups = len({len(str(each)) for each in shared}) if dimension.kind == "under" else 1
    return found + LOOKUP_COST[dimension.kind] * lookups
