"""The values that one attribute can still have, once some comparisons are known to hold of it and others not.

A domain may be larger than the truth, never smaller. It is exact for presence, type, order, equality,
membership, prefixes, networks and set relations; other tests of strings are tried on each string that is
left, if they are finitely many.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from msgspec import structs

from authz.predicate.compiler import Layout, compile_predicate
from authz.predicate.reasoning import intervals as iv
from authz.predicate.reasoning.intervals import Intervals
from authz.predicate.terms import (
    AnyComparison,
    Cidr,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    Glob,
    In,
    Kind,
    Literal,
    Names,
    Order,
    Overlaps,
    Path,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Subset,
    Suffix,
)
from authz.predicate.values import address, keys, network_range

_PLACE = Path("it", ("it",))
_TEXT_TESTS = (Prefix, Suffix, Contains)
_BOTH = frozenset({True, False})
_V4 = iv.integers(0, 2**32 - 1)
_V6 = iv.integers(0, 2**128 - 1)
_FEW = 256
_IT: Layout[dict[str, object]] = Layout({"it": "it"})


@dataclass(frozen=True, slots=True)
class Domain:
    """A set of JSON values, kind by kind. `alien` is what exists and is of no kind, such as NaN or bytes."""

    missing: bool = False
    alien: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: Intervals = iv.NONE
    texts: Intervals = iv.NONE
    plain: bool = True
    """Whether a string may be other than an IP address; then those of version 4 and 6 by number."""
    v4: Intervals = _V4
    v6: Intervals = _V6
    lists: bool = False
    objects: bool = False

    def __and__(self, other: Domain) -> Domain:
        return Domain(
            self.missing and other.missing,
            self.alien and other.alien,
            self.booleans & other.booleans,
            self.numbers & other.numbers,
            self.texts & other.texts,
            self.plain and other.plain,
            self.v4 & other.v4,
            self.v6 & other.v6,
            self.lists and other.lists,
            self.objects and other.objects,
        )

    def __invert__(self) -> Domain:
        """The other values; only for domains that restrict a string's text or its address, not both."""
        address = not self.plain
        return Domain(
            not self.missing,
            not self.alien,
            _BOTH - self.booleans,
            ~self.numbers,
            iv.ALL if address else ~self.texts,
            True,
            ~self.v4 & _V4 if address else _V4,
            ~self.v6 & _V6 if address else _V6,
            not self.lists,
            not self.objects,
        )

    @property
    def strings(self) -> tuple[str, ...] | None:
        """The strings inside, if they are finitely many."""
        points = self.texts.points()
        if points is None and not self.plain and self.v6 == iv.NONE:
            points = _written(self.v4)
        return None if points is None else tuple(each for each in map(str, points) if self._admits(each))

    def _admits(self, text: str) -> bool:
        found = address(text)
        if found is None:
            return self.plain and text in self.texts
        return text in self.texts and found[1] in (self.v4 if found[0] == 4 else self.v6)


STRINGS = Domain(texts=iv.ALL)
EVERYTHING = ~Domain()
PRESENT = replace(EVERYTHING, missing=False)
_KINDS = {
    "string": STRINGS,
    "number": Domain(numbers=iv.ALL),
    "boolean": Domain(booleans=_BOTH),
    "list": Domain(lists=True),
    "object": Domain(objects=True),
}


def _written(numbers: Intervals) -> tuple[str, ...] | None:
    """The addresses of version 4 with these numbers, if they are few: each is written in one way only."""
    runs = [range(int(low[1]), int(high[1])) for low, high in numbers.pieces()]
    if sum(map(len, runs)) > _FEW:
        return None
    return tuple(str(IPv4Address(each)) for run in runs for each in run)


def _scalar(value: Scalar) -> Domain:
    if isinstance(value, bool):
        return Domain(booleans=frozenset({value}))
    return Domain(texts=iv.only(value)) if isinstance(value, str) else Domain(numbers=iv.only(value))


def _one_of(values: Iterable[Scalar]) -> Domain:
    rest = EVERYTHING
    for value in values:
        rest &= ~_scalar(value)
    return ~rest


def _network(network: str) -> Domain:
    version, first, last = network_range(network)
    inside = iv.integers(first, last)
    return replace(
        STRINGS, plain=False, v4=inside if version == 4 else iv.NONE, v6=inside if version == 6 else iv.NONE
    )


def exactly(test: AnyComparison) -> Domain | None:
    """The values of which the comparison is true, where a domain can say it."""
    match test:
        case Exists():
            return PRESENT
        case Kind():
            return _KINDS[test.kind]
        case Equal(fold=False):
            return _scalar(test.value)
        case Order():
            side = iv.ordered(test.op, test.value)
            return Domain(texts=side) if isinstance(test.value, str) else Domain(numbers=side)
        case In():
            return _one_of(test.values)
        case Prefix(fold=False):
            return Domain(texts=iv.prefixed(test.value))
        case Cidr():
            return _network(test.network)
    return None


def at_most(test: AnyComparison) -> Domain:
    """Values outside which the comparison is false."""
    match test:
        case Glob():
            return Domain(texts=iv.prefixed(re.split(r"[*?\[]", test.pattern, maxsplit=1)[0]))
        case Equal() | Prefix() | Suffix() | Contains() | Regex():
            return STRINGS
        case Subset() | Overlaps() | Names():
            return _KINDS["list"]
        case EqualDocument():
            return _KINDS["list" if test.json.lstrip().startswith("[") else "object"]
        case Relate(op="subset" | "overlaps"):
            return _KINDS["list"]
    return PRESENT


@dataclass(slots=True)
class Facts:
    """The literals known of one attribute."""

    domain: Domain = EVERYTHING
    opaque: list[Literal] = field(default_factory=list)
    """Those a domain cannot express exactly."""

    def learn(self, literal: Literal) -> None:
        test = literal.comparison
        exact = exactly(test)
        if exact is not None:
            self.domain &= exact if literal.holds else ~exact
            return
        if literal.holds:
            self.domain &= at_most(test)
        self.opaque.append(literal)

    def must_exist(self) -> None:
        self.domain &= PRESENT

    @property
    def possible(self) -> bool:
        """False only if no value, nor its absence, agrees with all that is known."""
        domain = self.domain
        if any(_contradict(one, other) for one in self.opaque for other in self.opaque):
            return False
        if domain.missing or domain.alien or domain.booleans or domain.numbers != iv.NONE:
            return True
        for each in self.opaque:
            if each.holds and isinstance(each.comparison, EqualDocument):
                return (domain.lists or domain.objects) and self._agree(json.loads(each.comparison.json))
        return domain.objects or (domain.lists and self._some_list()) or self._some_string()

    def _some_string(self) -> bool:
        strings = self.domain.strings
        return strings is None or any(map(self._agree, strings))

    def _agree(self, value: object) -> bool:
        """Whether this very value passes every test that looks at nothing else."""
        return all(
            compile_predicate(structs.replace(each.comparison, path=_PLACE), _IT)({"it": value}) is each.holds
            for each in self.opaque
            if not isinstance(each.comparison, Relate)
        )

    def _some_list(self) -> bool:
        """Exact: a list that needs several elements may have them all."""
        allowed: frozenset[object] | None = None
        refused = frozenset[object]()
        for elements in self._sets(Subset, True):
            allowed = elements if allowed is None else allowed & elements
        for elements in self._sets(Overlaps, False):
            refused |= elements
        if allowed is not None:
            allowed -= refused
        for elements in self._sets(Overlaps, True):
            if not (elements - refused if allowed is None else elements & allowed):
                return False
        return allowed is None or all(allowed - elements for elements in self._sets(Subset, False))

    def _sets(self, kind: type[Subset | Overlaps], holds: bool) -> Iterator[frozenset[object]]:
        for each in self.opaque:
            if isinstance(each.comparison, kind) and each.holds is holds:
                yield keys(each.comparison.values)


def _contradict(one: Literal, other: Literal) -> bool:
    return one.holds and not other.holds and _implies(one.comparison, other.comparison)


def _implies(one: AnyComparison, other: AnyComparison) -> bool:
    """Whether the one test of a string passing means the other does: part of the truth."""
    if one == other:
        return True
    if isinstance(other, Names):
        return isinstance(one, Names) and set(one.values) <= set(other.values)
    if not isinstance(one, _TEXT_TESTS) or not isinstance(other, _TEXT_TESTS) or one.fold is not other.fold:
        return False
    whole, part = (one.value.lower(), other.value.lower()) if one.fold else (one.value, other.value)
    if isinstance(other, Contains):
        return part in whole
    return type(one) is type(other) and (
        whole.startswith(part) if isinstance(other, Prefix) else whole.endswith(part)
    )
