"""Restrictions: what a permission to publish or subscribe leaves of what was asked for.

After Belokosztolszki et al. (Role-based access control for publish/subscribe middleware architectures, DEBS 2003,
section 4.2). A restriction has up to two parts: what the event service itself can express, which becomes part of the
subscription and is filtered as near to the publisher as possible; and what only the client's own broker can tell,
looked at for each event there. What cannot be expressed exactly is pushed out in a wider form and looked at again
(hybrid). Invariant: `pushed` lets through whatever `filter` lets through.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from authz.predicate import (
    FALSE,
    TRUE,
    And,
    Cidr,
    Equal,
    Exists,
    In,
    Or,
    Order,
    Predicate,
    Prefix,
    comparisons,
    conjunction,
)
from authz.spki import Capability, Right
from pubsub_core.rules import Interaction

_EXPRESSIBLE = (Equal, In, Order, Prefix, Exists, Cidr)
"""The comparisons whose coverage is known exactly, so that brokers can aggregate them."""


class Class(enum.StrEnum):
    """How a restriction is enforced."""

    NONE = "none"
    GENERIC = "generic"
    """By the client's own broker alone."""
    PUBSUB = "publish/subscribe"
    """By the event service, wherever it filters."""
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Check:
    """A generic predicate by name, with its parameters bound to constants and to attributes of the event."""

    name: str
    constants: Mapping[str, object] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Parameters to the UUIDs of the attributes they are bound to."""


@dataclass(frozen=True, slots=True)
class Metered:
    """A capability whose hours or rates are looked at with each use."""

    capability: Capability
    right: Right
    name: str


@dataclass(frozen=True, slots=True)
class Option:
    """One of several grants, of which an event needs one: what it must meet, and the hours and rates that bind it."""

    filter: Predicate = TRUE
    metered: Metered | None = None


@dataclass(frozen=True, slots=True)
class Restriction:
    """What remains of a right. The default leaves all of it."""

    visible: frozenset[str] | None = None
    """The attributes, by UUID, that may be seen or set; None for all."""
    forced: Mapping[str, object] = field(default_factory=dict)
    """Values, by UUID, that publications have whatever their publisher says."""
    filter: Predicate = TRUE
    """What every event must meet. It binds also where its attributes may not be seen."""
    checks: tuple[Check, ...] = ()
    options: tuple[Option, ...] = ()
    """If any, each event is let through by one of these; at most one side of `&` has them."""
    rules: Interaction | None = None
    """Rules of interaction control; at most one side of `&` has them."""
    owned: tuple[Interaction, ...] = ()
    """Rules of the owners of types, each of which binds by itself."""
    recorded: bool = False
    """Whether nothing is delivered before the audit stream has that it is."""
    foreign: frozenset[str] = frozenset()
    """Versions whose values are of other kinds than those the filter speaks of: it says nothing about their events."""

    def __and__(self, other: Restriction) -> Restriction:
        """What both leave."""
        if other is UNRESTRICTED or self is UNRESTRICTED:
            return self if other is UNRESTRICTED else other
        assert self.rules is None or other.rules is None, "rules are read all together"
        assert not self.options or not other.options, "grants are read all together"
        conflict = any(other.forced.get(id_, value) != value for id_, value in self.forced.items())
        return Restriction(
            _common(self.visible, other.visible),
            {**self.forced, **other.forced},
            FALSE if conflict else conjunction(self.filter, other.filter),
            (*self.checks, *(each for each in other.checks if each not in self.checks)),
            self.options or other.options,
            self.rules or other.rules,
            (*self.owned, *(each for each in other.owned if each not in self.owned)),
            self.recorded or other.recorded,
            self.foreign | other.foreign,
        )

    @property
    def pushed(self) -> Predicate:
        """The part that the event service can express, perhaps wider than the whole."""
        ruled = (widened(each.pushed) for each in self.every_rule)
        terms = tuple(each for each in (widened(self.filter), *ruled) if each != TRUE)
        return TRUE if not terms else terms[0] if len(terms) == 1 else And(terms)

    @property
    def every_rule(self) -> tuple[Interaction, ...]:
        """The rules of owners, then those of this domain."""
        return self.owned if self.rules is None else (*self.owned, self.rules)

    @property
    def local(self) -> bool:
        """Whether something is left for the client's own broker to look at."""
        looked_at = self.checks or self.options or self.every_rule or self.recorded or self.foreign
        return bool(looked_at) or self.pushed != self.filter

    @property
    def kind(self) -> Class:
        pushes = self.pushed != TRUE
        if self.local:
            return Class.HYBRID if pushes else Class.GENERIC
        return Class.PUBSUB if pushes else Class.NONE


UNRESTRICTED = Restriction()


def either(several: Sequence[Restriction]) -> Restriction:
    """What any of these grants leaves, as far as one restriction can say it.

    Those count together that leave the same attributes and force the same values; of several such groups the first
    with a grant that has neither hours nor rates, or else the first. Hours and rates bind the grant they stand in, and
    no other.
    """
    first = next((each for each in several if not each.options), several[0])
    alike = [each for each in several if each.visible == first.visible and each.forced == first.forced]
    free = [each for each in alike if not each.options]
    metered = tuple(option for each in alike for option in each.options)
    if not metered or any(each.filter == TRUE for each in free):
        return replace(first, filter=_any(free), options=())
    return replace(first, filter=_any(alike), options=(*(Option(each.filter) for each in free), *metered))


def _any(several: Sequence[Restriction]) -> Predicate:
    """What passes the filter of one of them."""
    filters = tuple(dict.fromkeys(each.filter for each in several))
    return TRUE if TRUE in filters else filters[0] if len(filters) == 1 else Or(filters)


def widened(predicate: Predicate) -> Predicate:
    """The narrowest that can be said about the predicate by comparisons whose coverage is known."""
    if expressible(predicate):
        return predicate
    if isinstance(predicate, And):
        terms = tuple(term for term in map(widened, predicate.terms) if term != TRUE)
        return terms[0] if len(terms) == 1 else And(terms)
    if isinstance(predicate, Or):
        terms = tuple(map(widened, predicate.terms))
        return TRUE if TRUE in terms else Or(terms)
    return TRUE


def expressible(predicate: Predicate) -> bool:
    return all(isinstance(test, _EXPRESSIBLE) for test in comparisons(predicate))


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
