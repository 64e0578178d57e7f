"""How many events each client could have read: counted by the database where it knows enough, or event by event.

A database counts by the times and the filters of accesses, without opening an event, if it has the attribute that is
asked about and those that filters speak of in columns of their own. Everything else is read page by page, each event
once for all clients. Invariant: both ways count the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from authfabric.exposure.access_finder import AccessFinder
from authfabric.exposure.evidence import Question
from authfabric.exposure.possible_access import Form, PossibleAccess
from authz.predicate import Predicate
from pubsub_core.events import Event, decode
from pubsub_core.history import Clause, Counting, HistoryStore, Page, Reading, Span


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """What somebody could have read of the events in question."""

    full: int = 0
    """Events of which it could have read the value as it was."""
    altered: int = 0
    """Events of which it could have read no more than what a rule makes of the value."""
    unknown: int = 0
    """Events of which that depends on what is not known any more."""
    live: int = 0
    """Of those that it could have read, full or altered: those it could have read as they were published."""
    first: float | None = None
    last: float | None = None
    """When the first and the last of those were published."""
    prevented: int | None = None
    """Of those: of which it could have read nothing under the proposed policies; None if there are none."""
    blurred: int | None = None
    """Of the full ones: of which it could have read no more than something altered."""
    disclosed_prevented: int | None = None
    """Of those that it is on record to have been shown: of which it could have read nothing."""


@dataclass(frozen=True, slots=True)
class View:
    """The accesses of a client: those that it had, and those that it would have had under the proposed policies."""

    then: tuple[PossibleAccess, ...]
    proposed: tuple[PossibleAccess, ...] | None = None


Disclosed: TypeAlias = Callable[[str, Event], bool]
"""Whether it is on record that somebody was shown the attribute of an event."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The tallies, by client, and how they were found."""

    tallies: Mapping[str, Tally]
    events: int = 0
    """Events with a value of the attribute."""
    opened: int = 0
    """Events that were opened: none if the database has counted."""
    damaged: int = 0
    """Events that do not open."""


Read: TypeAlias = Callable[[Sequence[str]], Awaitable[Counts]]
"""Counts for clients, by name, by reading events."""


async def count(
    store: HistoryStore,
    question: Question,
    views: Mapping[str, View],
    accesses: AccessFinder,
    disclosed: Disclosed | None = None,
    sql: bool = True,
    read: Read | None = None,
) -> Counts:
    """Count for all clients, by name. With `disclosed`, events are read even if the database could count them.

    With `read`, that reads events, for whomever the database does not know enough of.
    """
    tallies: dict[str, Tally] = {}
    known: dict[object, Tally | None] = {}
    for name, view in views.items():
        if not view.then:
            tallies[name] = _nothing(view)
        elif sql and (disclosed is None or view.proposed is None):
            key = _alike(view)
            if key is not None and key not in known:
                known[key] = _by_database(store, question, view)
            found = known.get(key)
            if found is not None:
                tallies[name] = found
    left = {name: view for name, view in views.items() if name not in tallies}
    whole = store.count(Counting(question.type, question.attribute, question.within)) if sql else None
    if not left and whole is not None:
        return Counts(tallies, whole.events)
    if read is not None:
        rest = await read(tuple(left))
    else:
        rest = await count_by_reading(store, question, left, accesses, question.within, disclosed)
    return Counts({**tallies, **rest.tallies}, rest.events, rest.opened, rest.damaged)


async def count_by_reading(
    store: HistoryStore,
    question: Question,
    views: Mapping[str, View],
    accesses: AccessFinder,
    part: Span,
    disclosed: Disclosed | None = None,
) -> Counts:
    """Count event by event what was published in a part of the time in question."""
    reading = _Reading(question, views, disclosed)
    opened = damaged = 0
    for page in _pages(store, question, part):
        events = [(decode(body), len(body)) for body in page.bodies]
        await accesses.ask(reading.accesses, [event for event, _ in events])
        reading.take(events)
        opened, damaged = opened + len(events), damaged + len(page.damaged)
    return Counts(reading.tallies(), reading.events, opened, damaged)


def joined(parts: Sequence[Counts]) -> Counts:
    """What was counted of several parts of the time, together."""
    tallies: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.tallies.items():
            tallies[name] = _added(tallies[name], tally) if name in tallies else tally
    return Counts(
        tallies,
        sum(each.events for each in parts),
        sum(each.opened for each in parts),
        sum(each.damaged for each in parts),
    )


def _added(one: Tally, other: Tally) -> Tally:
    def total(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else a + b

    times = [at for each in (one, other) for at in (each.first, each.last) if at is not None]
    return Tally(
        one.full + other.full,
        one.altered + other.altered,
        one.unknown + other.unknown,
        one.live + other.live,
        min(times, default=None),
        max(times, default=None),
        total(one.prevented, other.prevented),
        total(one.blurred, other.blurred),
        total(one.disclosed_prevented, other.disclosed_prevented),
    )


def _nothing(view: View) -> Tally:
    none = None if view.proposed is None else 0
    return Tally(prevented=none, blurred=none)


def _pages(store: HistoryStore, question: Question, part: Span) -> Iterator[Page]:
    reading = Reading(question.type, (part,))
    page = store.read(reading)
    yield page
    while page.after is not None:
        page = store.read(reading, page.after)
        yield page


# By the database


def _by_database(store: HistoryStore, question: Question, view: View) -> Tally | None:
    """What the database counts; None if it does not know enough, or accesses are more than filters."""
    then, proposed = _clauses(view.then), _clauses(view.proposed or ())
    if then is None or proposed is None:
        return None

    def counting(wanted: Sequence[Clause], unless: Sequence[Clause] = ()) -> Counting:
        return Counting(question.type, question.attribute, question.within, wanted, unless)

    found, live = store.count(counting([*then.live, *then.past])), store.count(counting(then.live))
    if found is None or live is None:
        return None
    tally = Tally(full=found.events, live=live.events, first=found.first, last=found.last)
    if view.proposed is None:
        return tally
    kept = store.count(counting([*then.live, *then.past], [*proposed.live, *proposed.past]))
    return None if kept is None else msgspec.structs.replace(tally, prevented=kept.events, blurred=0)


@dataclass(frozen=True, slots=True)
class _Clauses:
    live: tuple[Clause, ...]
    past: tuple[Clause, ...]


def _clauses(accesses: Sequence[PossibleAccess]) -> _Clauses | None:
    """Accesses that are nothing but filters and times, as few as say the same; None if one is more."""
    live, past = defaultdict[Predicate, list[Span]](list), dict[Predicate, float]()
    for each in accesses:
        filter_ = each.plain
        if filter_ is None:
            return None
        if each.past:  # whatever was published before it ended
            past[filter_] = max(each.span.end, past.get(filter_, float("-inf")))
        else:
            live[filter_].append(each.span)
    return _Clauses(
        tuple(Clause(span, filter_) for filter_, spans in live.items() for span in _joined(spans)),
        tuple(Clause(Span(end=end), filter_) for filter_, end in past.items()),
    )


def _joined(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for each in sorted(spans, key=lambda span: span.start):
        if found and each.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def _alike(view: View) -> object:
    """What clients have in common for whom the same is counted; None if the database does not count for them."""
    then, proposed = _clauses(view.then), _clauses(view.proposed or ())
    return None if then is None or proposed is None else (then, proposed, view.proposed is None)


# Event by event


@dataclass(slots=True, eq=False)
class _Running:
    """A tally that grows."""

    name: str
    view: View
    full: int = 0
    altered: int = 0
    unknown: int = 0
    live: int = 0
    first: float | None = None
    last: float | None = None
    prevented: int = 0
    blurred: int = 0
    disclosed_prevented: int = 0
    _cheapest_first: list[PossibleAccess] = field(init=False)
    """What needs least to be looked at, and tells most, comes first."""

    def __post_init__(self) -> None:
        self._cheapest_first = sorted(self.view.then, key=lambda each: (each.plain is None, each.past))

    def take(self, event: Event, size: int, attribute: str, disclosed: Disclosed | None) -> None:
        live = past = Form.HIDDEN
        for each in self._cheapest_first:
            if each.past and past is Form.FULL:
                continue
            found = each.form(event, size, attribute)
            if found > past:
                past = found
            if not each.past and found > live:
                live = found
                if live is Form.FULL:
                    break
        self.full += past is Form.FULL
        self.altered += past is Form.ALTERED
        self.unknown += past is Form.UNKNOWN
        if past >= Form.ALTERED:
            self.live += live >= Form.ALTERED
            self.first = event.time if self.first is None else min(event.time, self.first)
            self.last = event.time if self.last is None else max(event.time, self.last)
        if self.view.proposed is not None:
            self._propose(event, size, attribute, past, disclosed)

    def _propose(
        self, event: Event, size: int, attribute: str, then: Form, disclosed: Disclosed | None
    ) -> None:
        shown = disclosed is not None and disclosed(self.name, event)
        if then < Form.ALTERED and not shown:
            return
        accesses = self.view.proposed or ()
        found = max((each.form(event, size, attribute) for each in accesses), default=Form.HIDDEN)
        if then >= Form.ALTERED:
            self.prevented += found is Form.HIDDEN
            self.blurred += found is Form.ALTERED and then is Form.FULL
        self.disclosed_prevented += shown and found is Form.HIDDEN

    def tally(self, disclosed: bool) -> Tally:
        proposed = self.view.proposed is not None
        return Tally(
            self.full,
            self.altered,
            self.unknown,
            self.live,
            self.first,
            self.last,
            self.prevented if proposed else None,
            self.blurred if proposed else None,
            self.disclosed_prevented if proposed and disclosed else None,
        )


@dataclass(slots=True, eq=False)
class _Reading:
    """Takes events, each once, for all clients that are left."""

    question: Question
    views: Mapping[str, View]
    disclosed: Disclosed | None
    events: int = 0
    accesses: list[PossibleAccess] = field(init=False)
    _running: list[_Running] = field(init=False)

    def __post_init__(self) -> None:
        self._running = [_Running(name, view) for name, view in self.views.items()]
        views = self.views.values()
        self.accesses = [each for view in views for each in (*view.then, *(view.proposed or ()))]

    def take(self, events: Sequence[tuple[Event, int]]) -> None:
        attribute = self.question.attribute
        for event, size in events:
            if event.attributes.get(attribute) is not None:
                self.events += 1
                for each in self._running:
                    each.take(event, size, attribute, self.disclosed)

    def tallies(self) -> dict[str, Tally]:
        return {each.name: each.tally(self.disclosed is not None) for each in self._running}
