"""Exclusion: one literal refutes all conditions that share a dimension.

Conditions are filed by their guards. Those a request does not reach are excluded together, by a literal on the
dimension as weak as it can cheaply be; those it reaches are refuted singly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect, bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import TypeAlias, TypeGuard, cast

import msgspec

from authz.predicate import (
    REQUEST,
    And,
    Certificate,
    Equal,
    Exists,
    In,
    Kind,
    Literal,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Scalar,
    Subset,
)
from authz.predicate.compiler import compile_reader
from authz.predicate.values import LISTS, key
from authz.request import Request
from pdp.engine.access_predicates import MANY_KEYS, Dimension, Table, best_dimension, guards, settles, table
from pdp.engine.refute import Refuter, TooManyRivals, compile_refuter

Filed: TypeAlias = Mapping[Scalar, Sequence[Predicate]]
Conditions: TypeAlias = Callable[[int], Predicate]
"""The condition with a number."""
Intern: TypeAlias = Callable[[Literal], Literal]
"""Interning: gives the same object for equal literals."""
FEW = 4
"""Maximum conditions refuted one by one, which gives weaker literals."""
SHORT = 16
"""Preferred maximum of constants in a literal."""
LONG = 256
"""Maximum constants in a literal, and maximum characters of a constant."""


class Exclusion(ABC):
    """Conditions filed in one dimension. `exclude` is a refuter of them all."""

    def __init__(self, dimension: Dimension, filed: Filed, intern: Intern) -> None:
        self.dimension = dimension
        self.path = dimension.path
        self.filed = filed
        self.intern = intern
        self._read = compile_reader(dimension.path, REQUEST)
        self._refuters: dict[Scalar, Refuter] = {}

    @abstractmethod
    def narrow(self, known: Certificate) -> tuple[Filed, list[Predicate]]:
        """Of what is filed: what a request in which `known` holds may reach, and what it reaches for certain."""

    @abstractmethod
    def exclude(self, request: Request, add: Callable[[Literal], object]) -> None:
        """Hand over literals true of the request, such that where they hold none of the conditions does."""

    def _refuter(self, found: Scalar) -> Refuter:
        """Of what is filed there."""
        refuter = self._refuters.get(found)
        if refuter is None:
            conditions = [self._rest(found, one) for one in self.filed[found]]
            refuter = self._refuters[found] = compile_refuter(conditions, self.intern)
        return refuter

    def _rest(self, found: Scalar, condition: Predicate) -> Predicate:
        """What a condition demands beside the key it was found by."""
        terms = condition.terms if isinstance(condition, And) else (condition,)
        return And(tuple(each for each in terms if not settles(self.dimension, found, each)))


class _Is(Exclusion):
    """By the value itself."""

    def __init__(self, dimension: Dimension, filed: Filed, intern: Intern) -> None:
        super().__init__(dimension, filed, intern)
        self._none = intern(Literal(In(self.path, tuple(filed)), False))

    def narrow(self, known: Certificate) -> tuple[Filed, list[Predicate]]:
        for each in _held(known, self.path):
            if isinstance(each, Equal) and not each.fold:
                return {}, list(self.filed.get(cast("Scalar", key(each.value)), ()))
            if isinstance(each, In):
                return {found: self.filed[found] for found in each.values if key(found) in self.filed}, []
            if isinstance(each, Prefix) and not each.fold:
                return {
                    found: self.filed[found] for found in self.filed if str(found).startswith(each.value)
                }, []
        return self.filed, []

    def exclude(self, request: Request, add: Callable[[Literal], object]) -> None:
        value = self._read(request)
        found = key(value)
        reached = found in self.filed
        if reached:
            self._refuter(cast("Scalar", found))(request, add)
        if len(self.filed) == reached:
            return
        if not reached and len(self.filed) <= SHORT:
            add(self._none)
        elif value is None:
            add(Literal(Exists(self.path), False))
        elif _is_constant(value):
            add(Literal(Equal(self.path, value)))
        else:
            add(_listed(self._none, len(self.filed)))


class _Under(Exclusion):
    """By the prefixes of the value. Whoever reaches one key reaches those it starts with, so it stands for them."""

    def __init__(self, dimension: Dimension, filed: Filed, intern: Intern) -> None:
        super().__init__(dimension, filed, intern)
        self._sorted = sorted(map(str, filed))
        self._lengths = sorted({len(each) for each in self._sorted}, reverse=True)
        extended = {a for a, b in zip(self._sorted, self._sorted[1:], strict=False) if b.startswith(a)}
        self._last = {each for each in self._sorted if each not in extended}
        """The prefixes that no other one extends: whatever is under one of them is under nothing further."""
        self._steps: dict[str, Refuter | None] = dict.fromkeys(self._sorted)
        """What is done with a request under a key, once one was."""

    def narrow(self, known: Certificate) -> tuple[Filed, list[Predicate]]:
        for each in _held(known, self.path):
            if isinstance(each, Equal) and not each.fold:
                return {}, [one for found in self._reached(str(each.value)) for one in self.filed[found]]
            if isinstance(each, Prefix) and not each.fold:
                reached = self._reached(each.value)
                beyond = [found for found in self._starting(each.value) if found != each.value]
                certain = [one for found in reached for one in self.filed[found]]
                return {found: self.filed[found] for found in beyond}, certain
        return self.filed, []

    def _starting(self, prefix: str) -> Iterator[str]:
        place = bisect_left(self._sorted, prefix)
        return takewhile(lambda each: each.startswith(prefix), islice(self._sorted, place, None))

    def _reached(self, value: str) -> list[str]:
        """The keys that the value starts with, the longest first."""
        return [value[:n] for n in self._lengths if n <= len(value) and value[:n] in self.filed]

    def exclude(self, request: Request, add: Callable[[Literal], object]) -> None:
        value = self._read(request)
        if not isinstance(value, str):
            add(Literal(Kind(self.path, "string"), False))
            return
        for length in self._lengths:
            start = value[:length]
            if start in self._steps:
                step = self._steps[start] or self._step(start)
                step(request, add)
                return
        add(self._apart(value, []))

    def _step(self, longest: str) -> Refuter:
        """How whatever is under this key, and under none longer, is kept from all conditions."""
        reached = self._reached(longest)
        conditions = [self._rest(each, one) for each in reached for one in self.filed[each]]
        if longest in self._last:
            others = (Literal(Prefix(self.path, longest)),) if len(self._last) > 1 else ()
            made = compile_refuter(conditions, self.intern, others)
        else:
            made = self._then_apart(compile_refuter(conditions, self.intern), reached)
        self._steps[longest] = made
        return made

    def _then_apart(self, refuter: Refuter, reached: list[str]) -> Refuter:
        def step(request: Request, add: Callable[[Literal], object]) -> None:
            refuter(request, add)
            add(self._apart(str(self._read(request)), reached))

        return step

    def _apart(self, value: str, reached: list[str]) -> Literal:
        """The shortest start of the value that leads to nothing it does not reach itself.

        Among sorted strings, those beside the value share the longest start with it.
        """
        place = bisect(self._sorted, value)
        beside = self._sorted[place : place + 1]
        while place and self._sorted[place - 1] in reached:
            place -= 1
        if place:
            beside.append(self._sorted[place - 1])
        shared = max((_shared(value, each) for each in beside), default=0)
        if shared == len(value):
            if not _is_constant(value):
                raise TooManyRivals
            return Literal(Equal(self.path, value))
        return Literal(Prefix(self.path, value[: shared + 1]))


class _Has(Exclusion):
    """By the elements of a list."""

    def narrow(self, known: Certificate) -> tuple[Filed, list[Predicate]]:
        for each in _held(known, self.path):
            if isinstance(each, Subset):
                return {found: self.filed[found] for found in each.values if key(found) in self.filed}, []
        return self.filed, []

    def exclude(self, request: Request, add: Callable[[Literal], object]) -> None:
        value = self._read(request)
        if not isinstance(value, LISTS):
            add(Literal(Kind(self.path, "list"), False))
            return
        elements = {key(each) for each in value}
        reached = cast("set[Scalar]", elements & self.filed.keys())
        for found in reached:
            self._refuter(found)(request, add)
        if len(reached) == len(self.filed):
            return
        if len(self.filed) > SHORT and len(value) <= SHORT and all(map(_is_constant, value)):
            add(Literal(Subset(self.path, tuple(value))))
        else:
            others = tuple(found for found in self.filed if found not in elements)
            add(_listed(Literal(Overlaps(self.path, others), False), len(others)))


_KINDS: dict[str, type[Exclusion]] = {"is": _Is, "under": _Under, "has": _Has}


class Filing(msgspec.Struct, frozen=True, array_like=True):
    """Conditions by number, filed by dimension, as data."""

    tables: list[Table]
    """The numbers of the conditions under each key."""
    unfiled: list[int]
    """Those that cannot be filed."""

    @classmethod
    def of(cls, conditions: Iterable[tuple[int, Predicate]]) -> Filing:
        left = [(number, _plain(condition)) for number, condition in conditions]
        tables: list[Table] = []
        used: set[Dimension] = set()
        while dimension := best_dimension((found for _, found in left), used):
            filed: defaultdict[object, array[int]] = defaultdict(_numbers)
            for number, found in left:
                for each in found.get(dimension, ()):
                    filed[each].append(number)
            left = [(number, found) for number, found in left if dimension not in found]
            used.add(dimension)
            tables.append(table(dimension, {found: each.tobytes() for found, each in filed.items()}))
        return cls(tables, [number for number, _ in left])


class _Filed(Mapping[Scalar, Sequence[Predicate]]):
    """What is filed in a table: the conditions themselves are looked up when they are needed."""

    def __init__(self, filed: Table, conditions: Conditions) -> None:
        self._numbers = dict(zip(filed.keys, filed.values, strict=True))
        self._conditions = conditions

    def __getitem__(self, found: Scalar) -> Sequence[Predicate]:
        return [self._conditions(number) for number in array("I", self._numbers[found])]

    def __contains__(self, found: object) -> bool:
        return found in self._numbers

    def __iter__(self) -> Iterator[Scalar]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _numbers() -> array[int]:
    return array("I")


def exclusions(filing: Filing, conditions: Conditions, intern: Intern) -> list[Exclusion]:
    """What keeps requests from the conditions that are filed."""
    return [
        _KINDS[each.dimension.kind](each.dimension, _Filed(each, conditions), intern)
        for each in filing.tables
    ]


def reduced(exclusion: Exclusion, known: Certificate) -> tuple[Exclusion | None, list[Predicate]]:
    """What is still to be excluded from requests in which `known` holds, and what is to be refuted singly."""
    filed, single = exclusion.narrow(known)
    if filed is exclusion.filed:
        return exclusion, single
    if sum(map(len, filed.values())) <= FEW:
        return None, [*single, *(one for several in filed.values() for one in several)]
    return type(exclusion)(exclusion.dimension, filed, exclusion.intern), single


def _plain(condition: Predicate) -> dict[Dimension, frozenset[Scalar]]:
    """Guards whose keys are strings and numbers, so that they can stand in a literal."""
    return {
        dimension: cast("frozenset[Scalar]", found)
        for dimension, found in guards(condition).items()
        if len(found) <= MANY_KEYS and all(isinstance(each, (str, int, float)) for each in found)
    }


def _held(known: Certificate, path: Path) -> Iterable[object]:
    return (each.comparison for each in known if each.holds and each.comparison.path == path)


def _is_constant(value: object) -> TypeGuard[Scalar]:
    """Whether a literal can say that this is the value: it is short, and not NaN, which is equal to nothing."""
    if isinstance(value, str):
        return len(value) <= LONG
    return isinstance(value, (int, float)) and value == value


def _listed(literal: Literal, constants: int) -> Literal:
    if constants > LONG:
        raise TooManyRivals
    return literal


def _shared(one: str, other: str) -> int:
    """How many characters both start with."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
