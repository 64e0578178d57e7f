"""Automatic replay: the events on which past ones go to subscribers, as the rules about their subscriptions say.

Rules come with the permission to subscribe, and go with it. Invariant: for one event each rule about a subscription
starts at most one replay; replayed events come by another way, and start none.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from authz.predicate import Predicate
from authz.rules import AutoReplay, Call, Moment
from authz.rules.syntax import When
from authz.rules.terms import term_texts
from pubsub_core.delivery.replay_stream import Query
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.errors import EventError, UnknownType
from pubsub_core.events import Event
from pubsub_core.rules import (
    REPLAYED,
    Case,
    Context,
    Interaction,
    Known,
    Replaying,
    Term,
    Test,
    Unknowable,
    bind_condition,
    compile_condition,
    event_part,
    read_argument,
    read_term,
)
from pubsub_core.types import Attribute, Catalogue, EventType

_log = logging.getLogger("authfabric.rules")


@dataclass(frozen=True, slots=True)
class Due:
    """Past events that are to be sent."""

    rule: str
    subscription: Subscription
    query: Query
    narrow: Predicate
    """What the rule's filter says of the events alone."""
    test: Callable[[Event, float], bool] | None
    """The whole of it, if there is more."""
    cause: bytes = b""
    """What tells the event from others that it is due for."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A rule about a subscription, compiled for one type of trigger."""

    id: str
    subscription: Subscription
    rule: AutoReplay
    known: Known
    part: Predicate
    where: tuple[Test, ...]
    terms: Mapping[str, Term]
    start: Term | None
    end: Term | None
    during: tuple[Term, ...]
    narrow: Predicate
    test: Callable[[Event, float], bool] | None
    by_past: bool
    """Whether it asks if the trigger is replayed: otherwise nothing that is replayed starts it."""

    def due(self, event: Event, now: float, past: bool = False) -> Due | None:
        """What is to be sent because of an event. Raises Unknowable."""
        case = Case(event, now, self.known, self.terms, past)
        if not all(test(case) for test in self.where):
            return None
        query = Query(_time(self.start, case), _time(self.end, case), *self._held(case))
        return self.sending(query, _cause(event))

    def sending(self, query: Query, cause: bytes = b"") -> Due:
        return Due(self.id, self.subscription, query, self.narrow, self.test, cause)

    def _held(self, case: Case) -> tuple[str, str]:
        """The fluent that must have held, and the one that must not."""
        if self.rule.during is None:
            return "", ""
        things = [each(case) for each in self.during]
        known = tuple(each for each in things if isinstance(each, str | int | float | bool))
        held = str(Call(self.rule.during.fluent.name, known))
        return ("", held) if self.rule.during.inverted else (held, "")


def _cause(event: Event) -> bytes:
    """A name for an event, the same wherever and however often it is heard."""
    name = msgspec.msgpack.encode((event.publisher, event.sequence, event.time, event.type))
    return hashlib.blake2b(name, digest_size=16).digest()


def _time(term: Term | None, case: Case) -> float | None:
    """None if the rule sets no bound. Raises Unknowable if it does, and nobody knows which."""
    if term is None:
        return None
    found = term(case)
    if not isinstance(found, int | float):
        raise Unknowable("FROM or TO", "comes to no time")
    return found


class Triggers:
    """The rules about all subscriptions, by the types that start them."""

    def __init__(self, catalogue: Catalogue, context: Context) -> None:
        self._catalogue = catalogue
        self._context = context
        self._ready: defaultdict[str, list[_Ready]] = defaultdict(list)
        self._subscriptions: dict[Subscription, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._subscriptions)

    def connect(self, subscription: Subscription) -> bool:
        """Take up what rules say about a subscription now; true if other triggers are to be heard than before."""
        rules = [
            (rules, each)
            for enforcement in subscription.granted.values()
            for rules in enforcement.restriction.every_rule
            for each in rules.replays
        ]
        if not rules and subscription not in self._subscriptions:
            return False
        for type_ in self._subscriptions.pop(subscription, ()):
            self._ready[type_] = [
                each for each in self._ready[type_] if each.subscription is not subscription
            ]
        for interaction, replaying in rules:
            for definition in self._types(replaying.rule.trigger):
                self._add(subscription, interaction, replaying, definition)
        return True

    def wanted(self) -> dict[str, tuple[Predicate, ...]]:
        """What other brokers' events are to be heard, by the UUIDs of their types."""
        return {
            type_: tuple(dict.fromkeys(each.part for each in ready))
            for type_, ready in self._ready.items()
            if ready
        }

    def involved(self) -> set[str]:
        """The types, by UUID, whose events start replays, or are sent by them."""
        return set(self._ready).union(*(each.granted for each in self._subscriptions))

    def again(self, subscription: Subscription, rule: str, query: Query) -> Due | None:
        """What a rule was sending a subscription, if it still would."""
        about = (
            each
            for type_ in self._subscriptions.get(subscription, ())
            for each in self._ready[type_]
            if each.subscription is subscription and each.id == rule
        )
        found = next(about, None)
        return found.sending(query) if found is not None else None

    def hear(self, event: Event, now: float, past: bool = False) -> Iterator[Due]:
        """What is to be sent because of an event; `past` if it is one that a client has replayed."""
        started = set[tuple[Subscription, str]]()
        for each in self._ready.get(event.type, ()):
            if (each.subscription, each.id) in started or (past and not each.by_past):
                continue
            try:
                due = each.due(event, now, past)
            except EventError as error:
                _log.warning("`%s` replays nothing: %s", each.id, error)
                continue
            if due is not None:
                started.add((each.subscription, each.id))
                yield due

    def _types(self, name: str) -> Iterable[EventType]:
        try:
            return self._catalogue.family(self._catalogue.named(name).id)
        except UnknownType:
            return ()  # then there are no such events here yet

    def _add(
        self, subscription: Subscription, interaction: Interaction, replaying: Replaying, cause: EventType
    ) -> None:
        try:
            ready = self._compiled(subscription, interaction, replaying, cause)
        except EventError as error:
            _log.warning("`%s` replays nothing: %s", replaying.id, error)
            return
        if ready not in self._ready[cause.id]:
            self._ready[cause.id].append(ready)
            self._subscriptions.setdefault(subscription, set()).add(cause.id)

    def _compiled(
        self, subscription: Subscription, interaction: Interaction, replaying: Replaying, cause: EventType
    ) -> _Ready:
        rule, known = replaying.rule, interaction.known
        names = self._catalogue.names(cause.version)
        own = self._catalogue.names(interaction.version)
        wheres = [bind_condition(each, names, known) for each in (rule.trigger_where, rule.where)]
        filter_ = bind_condition(rule.filter, own, known)
        things = rule.during.fluent.arguments if rule.during is not None else ()
        return _Ready(
            replaying.id,
            subscription,
            rule,
            known,
            event_part(wheres[0]),
            tuple(map(compile_condition, wheres)),
            self._terms(wheres, names),
            self._when(rule.start, names),
            self._when(rule.end, names),
            tuple(read_argument(each, names, self._context) for each in things),
            event_part(filter_),
            self._test(filter_, own, known) if event_part(filter_) != filter_ else None,
            f"{REPLAYED}()" in term_texts(wheres[0]),
        )

    def _terms(self, conditions: Iterable[Predicate], names: Mapping[str, Attribute]) -> Mapping[str, Term]:
        texts = set[str]().union(*map(term_texts, conditions))
        return {text: read_term(text, names, self._context) for text in texts}

    def _when(self, when: When | None, names: Mapping[str, Attribute]) -> Term | None:
        if not isinstance(when, Moment):
            return None if when is None else lambda case: when
        return read_term(str(when), names, self._context)

    def _test(
        self, filter_: Predicate, names: Mapping[str, Attribute], known: Known
    ) -> Callable[[Event, float], bool]:
        holds, terms = compile_condition(filter_), self._terms([filter_], names)

        def test(event: Event, now: float) -> bool:
            try:
                return holds(Case(event, now, known, terms))
            except EventError:
                return False

        return test
