"""Rules at work on each event: whether a client gets it, and what it gets.

Rules are found by what their conditions say of the event, in an index, so that an event is tried against those that
could apply to it. Invariant: whatever cannot be found out, or cannot be done, leads to nothing being let through.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from authz.predicate import EVENT, TRUE, Predicate, compile_predicate
from authz.predicate.matching import Matcher
from authz.rules.terms import term_texts
from pubsub_core.errors import EventError
from pubsub_core.events import Event, sift
from pubsub_core.rules.condition import event_part, is_about_event
from pubsub_core.rules.context import Case, Context, Term, Test, compile_condition, read_term
from pubsub_core.rules.interaction import Bar, Change, Interaction, Permit
from pubsub_core.rules.subscriber_filter import SubscriberFilter
from pubsub_core.rules.transformed_events import Production
from pubsub_core.types import Catalogue

_log = logging.getLogger("authfabric.rules")

MOST_SAID = 100
Filter: TypeAlias = Callable[[Mapping[str, object]], bool]
Alike: TypeAlias = Sequence[Event | None]
"""For each of several events judged together: the event that takes its place, or None."""
_NO_EVENT = Event("", "", b"", 0.0, 0, {})
MOST_TERMS = 16_384


class Shown(msgspec.Struct, frozen=True, gc=False):
    """What a client gets of an event, and by which rules."""

    events: tuple[Event, ...]
    """The event itself, the very same, if nothing is altered."""
    rules: tuple[str, ...]


@dataclass(slots=True)
class RuleCounts:
    """What rules have done so far."""

    passed: int = 0
    restricted: int = 0
    """Held back as rules say."""
    failed: int = 0
    """Held back because something could not be found out, or done."""


@dataclass(slots=True)
class Rulebook:
    """What a broker judges by rules with."""

    catalogue: Catalogue
    secret: bytes = b""
    """Noise and pseudonyms are drawn from it."""
    context: Context = field(default_factory=Context)
    counts: RuleCounts = field(default_factory=RuleCounts)
    _terms: dict[tuple[str, str], Term] = field(default_factory=dict, init=False)

    def term(self, version: str, text: str) -> Term:
        """What finds out the worth of a term, in rules about a version of a type."""
        found = self._terms.get((version, text))
        if found is None:
            if len(self._terms) >= MOST_TERMS:
                self._terms.clear()
            found = read_term(text, self.catalogue.names(version), self.context)
            self._terms[version, text] = found
        return found


class Judge:
    """The rules about one client and one type, ready to be applied."""

    def __init__(
        self, interaction: Interaction, book: Rulebook, wanted: SubscriberFilter | None = None
    ) -> None:
        """`wanted` is what the client asked for, of what it gets to see."""
        self._interaction = interaction
        self._known = interaction.known
        self._book = book
        self._wanted = wanted if interaction.changes else None
        self._permits = _index(interaction.permits)
        self._others = _index((*interaction.bars, *interaction.changes))
        texts = self._permits.texts | self._others.texts
        self._terms = {text: book.term(interaction.version, text) for text in texts}
        self._production = Production(book.catalogue, book.secret, book.context)
        self._said = set[str]()
        self._always: _Force | None = None
        """What is in force for every event, if no condition is left to be judged."""
        if self._permits.unconditional and self._others.unconditional:
            self._always = self._in_force(Case(_NO_EVENT, 0.0, interaction.known, self._terms))

    @property
    def changes(self) -> bool:
        """Whether some rule makes another event of one."""
        return bool(self._interaction.changes)

    def show(
        self, event: Event, now: float, visible: frozenset[str] | None = None, past: bool = False
    ) -> Shown | None:
        """What comes of an event, of which these attributes may be seen; None if nothing does.

        `past` says that it is sent as one of the past.
        """
        counts = self._book.counts
        try:
            shown = self.apply(event, now, visible, past)
        except EventError as error:
            counts.failed += 1
            self._say(error)
            return None
        if shown is None:
            counts.restricted += 1
        else:
            counts.passed += 1
        return shown

    def apply(
        self, event: Event, now: float, visible: frozenset[str] | None = None, past: bool = False
    ) -> Shown | None:
        """The same, uncounted. Raises EventError where something cannot be found out, or done."""
        force = self._always
        uses: list[Callable[[], None]] = []
        if force is None or force.tests:
            case = Case(event, now, self._known, self._terms, past, uses)
            force = force or self._in_force(case)
            if force is None:
                return None
            for test in force.tests:
                if not test(case):
                    return None
        for holds in force.filters:
            if not holds(event.attributes):
                return None
        if visible is not None:
            event = event.narrowed(visible)
        events: tuple[Event, ...] = (event,)
        if force.changes:
            events = self._production.produce(event, force.changes)
        wanted = self._wanted
        if wanted is not None and not (len(events) == 1 and wanted.holds(events[0])):
            events = tuple(filter(wanted.holds, events))
        if not events:
            return None
        for use in uses:
            use()
        return Shown(events, force.ids)

    def show_all(
        self, events: Sequence[Event | None], visible: frozenset[str] | None = None
    ) -> tuple[Alike, tuple[str, ...]] | None:
        """What comes of events of one version, each one or none, and by which rules; None passes as None.

        None if each has to be judged by itself. Raises where that would show what cannot be done, uncounted.
        """
        force = self._always
        if force is None or force.tests or len(force.changes) > 1:
            return None
        shown: Alike = events
        for only in force.sieves:
            shown = sift(only, shown)
        if visible is not None:
            shown = [each.narrowed(visible) if each is not None else None for each in shown]
        if force.changes:
            shown = self._production.produce_all(shown, force.changes)
        if self._wanted is not None:
            shown = self._wanted.sift(shown)
        passed = len(shown) - shown.count(None)
        self._book.counts.passed += passed
        self._book.counts.restricted += len(events) - events.count(None) - passed
        return shown, force.ids

    def _in_force(self, case: Case) -> _Force | None:
        """The rules that apply and are not overridden, after one that permits; None if none does."""
        found = list[_Ready]()
        if self._permits:
            permit = next(self._permits.applicable(case), None)
            if permit is None:
                return None
            found.append(permit)
        applicable = list(self._others.applicable(case))
        if self._others.overriding:
            overridden = {id_ for each in applicable for id_ in each.overrides}
            applicable = [each for each in applicable if each.id not in overridden]
        return _Force.of([*found, *applicable])

    def _say(self, error: EventError) -> None:
        """Say once what is wrong: many events may meet it."""
        text = str(error)
        if text not in self._said and len(self._said) < MOST_SAID:
            self._said.add(text)
            name = self._book.catalogue.version(self._interaction.version).name
            _log.warning("events of `%s` are withheld: %s", name, text)


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A rule, compiled."""

    id: str
    part: Predicate
    """What its condition says of the event."""
    rest: Test | None
    """The condition, if that is not all of it."""
    overrides: tuple[str, ...] = ()
    test: Test | None = None
    filter: Filter | None = None
    """What it asks of the event in place of `test`, if it asks nothing else."""
    sieve: Predicate | None = None
    """The same, to be asked of many."""
    change: Change | None = None

    @classmethod
    def of(cls, rule: Permit | Bar | Change) -> _Ready:
        part = event_part(rule.where)
        rest = None if is_about_event(rule.where) else compile_condition(rule.where)
        match rule:
            case Permit():
                return cls(rule.id, part, rest)
            case Bar() if is_about_event(rule.filter):
                only = compile_predicate(rule.filter, EVENT)
                return cls(rule.id, part, rest, rule.overrides, filter=only, sieve=rule.filter)
            case Bar():
                return cls(rule.id, part, rest, rule.overrides, compile_condition(rule.filter))
            case Change():
                return cls(rule.id, part, rest, rule.overrides, change=rule)


class _Force(NamedTuple):
    """What the rules in force come to."""

    tests: tuple[Test, ...]
    filters: tuple[Filter, ...]
    sieves: tuple[Predicate, ...]
    """The same, for many events at once."""
    changes: tuple[Change, ...]
    ids: tuple[str, ...]

    @classmethod
    def of(cls, rules: Sequence[_Ready]) -> _Force:
        return cls(
            tuple(each.test for each in rules if each.test is not None),
            tuple(each.filter for each in rules if each.filter is not None),
            tuple(each.sieve for each in rules if each.sieve is not None),
            tuple(each.change for each in rules if each.change is not None),
            tuple(each.id for each in rules),
        )


@lru_cache(maxsize=1024)
def _index(rules: tuple[Permit | Bar | Change, ...]) -> _Index:
    """Rules in an index, which those share who have the same."""
    return _Index(rules)


class _Index:
    """Rules by what their conditions say of the event."""

    def __init__(self, rules: Iterable[Permit | Bar | Change]) -> None:
        self.texts = frozenset[str]().union(
            *(term_texts(each) for rule in rules for each in _conditions(rule))
        )
        """The terms that they speak of."""
        self._rules = list(map(_Ready.of, rules))
        self.overriding = any(each.overrides for each in self._rules)
        self._any = all(each.part == TRUE for each in self._rules)
        """Whether no condition says anything of the event: then there is nothing to look up."""
        self.unconditional = self._any and all(each.rest is None for each in self._rules)
        """Whether there are no conditions at all."""
        self._matcher: Matcher[int] = Matcher()
        for number, rule in enumerate(self._rules):
            self._matcher.add(number, rule.part)

    def __len__(self) -> int:
        return len(self._rules)

    def applicable(self, case: Case) -> Iterator[_Ready]:
        """The rules whose conditions hold, in their order."""
        rules: Iterable[_Ready] = self._rules
        if not self._any:
            rules = map(self._rules.__getitem__, sorted(self._matcher.match(case.event.attributes)))
        for rule in rules:
            if rule.rest is None or rule.rest(case):
                yield rule


def _conditions(rule: Permit | Bar | Change) -> tuple[Predicate, ...]:
    return (rule.where, rule.filter) if isinstance(rule, Bar) else (rule.where,)
