"""Following fluents: the events that begin and end them, as they are heard.

What counts is the time at which an event was published, or, should a clock be ahead, at which it was heard.
Invariant: with a log, what was heard is known again after a restart.
"""

from __future__ import annotations

import hashlib
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from authz.predicate import Predicate, Scalar
from authz.rules import FluentRule, Rule, Scope, Trigger, write_rule
from authz.rules.terms import term_texts
from pubsub_core.errors import EventError, UnknownType
from pubsub_core.events import Event
from pubsub_core.rules.condition import bind_condition, event_part
from pubsub_core.rules.context import Case, Context, Term, Test, compile_condition, read_term
from pubsub_core.rules.fluents import KEPT_SECONDS, Fluent
from pubsub_core.types import Catalogue, EventType

_log = logging.getLogger("authfabric.rules")


class Mark(NamedTuple):
    """A fluent began or ended to hold."""

    name: str
    arguments: tuple[Scalar, ...]
    at: float
    begins: bool


class Common(NamedTuple):
    """A fluent that brokers share."""

    types: frozenset[str]
    """Those whose events begin or end it, by UUID."""
    definition: bytes
    """What tells it from another fluent of the same name."""


class FluentLog(Protocol):
    """Where marks are kept over restarts."""

    def append(self, mark: Mark) -> None: ...

    def marks(self) -> Iterable[Mark]: ...

    def since(self, now: float) -> float:
        """From when on it must be known when fluents held."""
        ...


@dataclass(frozen=True, slots=True)
class _Cause:
    """What an event of one type does to a fluent."""

    fluent: str
    arguments: tuple[str, ...]
    """UUIDs of the attributes that say of what."""
    begins: bool
    shared: bool
    part: Predicate
    test: Test
    terms: Mapping[str, Term]

    def mark(self, event: Event, now: float) -> Mark | None:
        """What the event does, if anything. Raises Unknowable."""
        found = [event.attributes.get(id_) for id_ in self.arguments]
        things = tuple(each for each in found if isinstance(each, str | int | float | bool))
        if len(things) < len(found) or not self.test(Case(event, now, {}, self.terms)):
            return None
        return Mark(self.fluent, things, min(event.time, now), self.begins)


class Observer:
    """Keeps the context's fluents as the events say."""

    def __init__(self, catalogue: Catalogue, context: Context) -> None:
        self._catalogue = catalogue
        self._context = context
        self._rules: tuple[FluentRule, ...] = ()
        self._log: FluentLog | None = None
        self.causes: Mapping[str, Sequence[_Cause]] = {}
        """By the UUIDs of the types whose events matter."""
        self.common: Mapping[str, Common] = {}
        """The fluents that are shared, by name."""
        self.on_define: list[Callable[[], None]] = []
        """Called whenever it is said which fluents there are."""
        self.told = False
        """Whether it was said at all."""

    def since(self, now: float) -> float:
        """From when on it must be known when fluents held."""
        return self._log.since(now) if self._log is not None else now - KEPT_SECONDS

    def keep_in(self, log: FluentLog) -> None:
        """Take up what a log has, and add to it from now on."""
        self._log = log
        for mark in log.marks():
            self._note(mark)

    def define(self, rules: Iterable[FluentRule]) -> None:
        """Follow these fluents from now on, by the types that are known now."""
        self._rules = tuple(rules)
        causes = defaultdict[str, list[_Cause]](list)
        for rule in self._rules:
            for begins, triggers in ((True, rule.initiated), (False, rule.terminated)):
                for trigger in triggers:
                    for definition in self._types(trigger):
                        causes[definition.id] += self._cause(rule, trigger, begins, definition)
        self.causes = dict(causes)
        self.common = {each.name: self._common(each) for each in self._rules if each.scope is Scope.SHARED}
        self._context.defined = {each.name: len(each.parameters) for each in self._rules}
        self.told = True
        for tell in self.on_define:
            tell()

    def doubt(self) -> None:
        """Nobody says which fluents there are now: go on following these, and let nothing depend on them."""
        self._context.defined = {}

    def shared(self) -> dict[str, tuple[Predicate, ...]]:
        """What other brokers' events are to be heard, by the UUIDs of their types."""
        wanted = {
            type_: tuple(dict.fromkeys(each.part for each in causes if each.shared))
            for type_, causes in self.causes.items()
        }
        return {type_: parts for type_, parts in wanted.items() if parts}

    def hear(self, event: Event, now: float, local: bool) -> bool:
        """Note what an event does, and whether it does anything; `local` says that it was published here."""
        marked = False
        for cause in self.causes.get(event.type, ()):
            if not local and not cause.shared:
                continue
            try:
                mark = cause.mark(event, now)
            except EventError as error:
                _log.warning("an event that may concern `%s` is passed over: %s", cause.fluent, error)
                continue
            if mark is not None:
                marked = True
                self._take(mark)
        return marked

    def learn(self, mark: Mark) -> None:
        """Note what another broker knows, if it is news."""
        if not self._context.fluents.knows(Fluent(mark.name, mark.arguments), mark.at, mark.begins):
            self._take(mark)

    def _take(self, mark: Mark) -> None:
        self._note(mark)
        if self._log is not None:
            self._log.append(mark)

    def _common(self, rule: FluentRule) -> Common:
        triggers = (*rule.initiated, *rule.terminated)
        types = frozenset(each.id for trigger in triggers for each in self._types(trigger))
        definition = hashlib.blake2b(write_rule(Rule(rule)).encode(), digest_size=16).digest()
        return Common(types, definition)

    def _note(self, mark: Mark) -> None:
        fluents, fluent = self._context.fluents, Fluent(mark.name, mark.arguments)
        (fluents.initiate if mark.begins else fluents.terminate)(fluent, mark.at)

    def _types(self, trigger: Trigger) -> tuple[EventType, ...]:
        try:
            return self._catalogue.family(self._catalogue.named(trigger.type).id)
        except UnknownType:
            return ()  # then there are no such events here yet

    def _cause(
        self, rule: FluentRule, trigger: Trigger, begins: bool, definition: EventType
    ) -> Iterable[_Cause]:
        names = self._catalogue.names(definition.version)
        try:
            where = bind_condition(trigger.where, names, {})
            terms = {text: read_term(text, names, self._context) for text in term_texts(where)}
            if missing := [each for each in trigger.arguments if each not in names]:
                raise UnknownType(f"{trigger.type}.{missing[0]}")
        except EventError as error:
            _log.warning("`%s` is not followed by `%s`: %s", rule.name, trigger.type, error)
            return
        yield _Cause(
            rule.name,
            tuple(names[each].id for each in trigger.arguments),
            begins,
            rule.scope is Scope.SHARED,
            event_part(where),
            compile_condition(where),
            terms,
        )
