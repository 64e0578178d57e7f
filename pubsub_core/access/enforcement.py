"""Restrictions at work: on each event that a client publishes, and on each that is delivered to it.

Invariant: what `publish` returns is an event that the restriction allows to be published; what `show` returns shows
nothing that the restriction hides. Whatever fails while that is found out is not let through.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from authz.predicate import EVENT, TRUE, Predicate, compile_predicate
from pubsub_core.access.rate_usage import Ledger
from pubsub_core.access.restriction import Check, Metered, Restriction, widened
from pubsub_core.events import Event, sift
from pubsub_core.rules import Alike, Judge, Shown

Values: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Occasion:
    """An event about to be published or delivered."""

    event: Event
    size: int
    """In bytes, as it came."""
    now: float


Generic: TypeAlias = Callable[[Values, Occasion], bool]
"""A generic predicate: given its parameters' values, it says whether an event may pass."""


def _size_at_most(parameters: Values, occasion: Occasion) -> bool:
    limit = parameters["bytes"]
    return isinstance(limit, int) and occasion.size <= limit


def _multiple_of(parameters: Values, occasion: Occasion) -> bool:
    value, factor = parameters["value"], parameters["factor"]
    return isinstance(value, int) and isinstance(factor, int) and value % factor == 0


def _one_in(parameters: Values, occasion: Occasion) -> bool:
    """The same share of events everywhere, chosen by what they are rather than by chance."""
    event, count = occasion.event, parameters["count"]
    name = hashlib.sha256(event.publisher + event.sequence.to_bytes(8, "big", signed=True)).digest()
    return isinstance(count, int) and int.from_bytes(name[:8], "big") % count == 0


def _no_older_than(parameters: Values, occasion: Occasion) -> bool:
    seconds = parameters["seconds"]
    return isinstance(seconds, int | float) and occasion.now - occasion.event.time <= seconds


GENERIC: Mapping[str, Generic] = {
    "size-at-most": _size_at_most,
    "multiple-of": _multiple_of,
    "one-in": _one_in,
    "no-older-than": _no_older_than,
}
"""The generic predicates that every broker has; a broker may be given more."""


@lru_cache(maxsize=1024)
def _compiled(predicate: Predicate) -> Callable[[Values], bool]:
    """Restrictions of many clients are the same."""
    return compile_predicate(predicate, EVENT)


@dataclass(slots=True, eq=False)
class Enforcement:
    """One restriction, compiled."""

    restriction: Restriction
    generic: Mapping[str, Generic] = field(default_factory=lambda: GENERIC)
    judges: tuple[Judge, ...] = ()
    """Apply the restriction's rules, if it has any, one after the other."""
    client: str = ""
    """The key of the client that it binds."""
    ledger: Ledger = field(default_factory=Ledger)
    """Where the client's uses are counted."""
    _holds: Callable[[Values], bool] | None = field(init=False)
    _checks: tuple[tuple[Generic, Check], ...] = field(init=False)
    _options: tuple[tuple[Callable[[Values], bool], Metered | None], ...] = field(init=False)
    _only: Judge | None = field(init=False)
    """Who applies the rules, if one does."""
    _pushed: bool = field(init=False)
    _lax: bool = field(init=False)
    """Whether nothing has to be looked at that only this broker can tell."""
    open: bool = field(init=False)
    """Whether all that has passed the pushed part is delivered as it is."""
    free: bool = field(init=False)
    """Whether everything is published as it is."""
    measures: bool = field(init=False)
    """Whether it may matter how large an event is."""

    def __post_init__(self) -> None:
        restriction = self.restriction
        self._holds = None if restriction.filter == TRUE else _compiled(restriction.filter)
        self._checks = tuple((self.generic[each.name], each) for each in restriction.checks)
        self._options = tuple(
            (compile_predicate(each.filter, EVENT), each.metered) for each in restriction.options
        )
        self._pushed = widened(restriction.filter) == restriction.filter
        self._only = self.judges[0] if len(self.judges) == 1 else None
        self._lax = not (self._checks or self._options or restriction.foreign)
        plain = not self.judges and restriction.visible is None and not restriction.recorded
        self.open = self._pushed and self._lax and plain
        self.measures = bool(self._checks)
        self.free = self.open and self._holds is None and not restriction.forced
        assert len(self.judges) == len(restriction.every_rule), "who has rules needs somebody to apply them"

    def publish(self, event: Event, size: int, now: float) -> Values | None:
        """The values under which the event may be published, the very same if nothing changes; None if it may not."""
        values: Values = event.attributes
        restriction = self.restriction
        visible = restriction.visible
        if visible is not None and not visible >= values.keys():
            values = {id_: value for id_, value in values.items() if id_ in visible}
        if restriction.forced and any(values.get(id_) != value for id_, value in restriction.forced.items()):
            values = {**values, **restriction.forced}
        if self._holds is not None and not self._holds(values):
            return None
        return values if self._passes(event, values, size, now) else None

    def show(
        self, event: Event, size: int, now: float, matched: bool = False, past: bool = False
    ) -> Shown | None:
        """What the subscriber may see of an event: the very same, or others in its place, or None for nothing.

        `matched` says that the event has passed this restriction's pushed part already, `past` that it is replayed.
        """
        holds, visible = self._holds, self.restriction.visible
        if holds is not None and not (matched and self._pushed) and not holds(event.attributes):
            return None
        if self._only is not None:
            shown = self._only.show(event, now, visible, past)
        else:
            shown = self._judged(event, now, visible, past)
        passes = shown is not None and (self._lax or self._passes(event, event.attributes, size, now))
        return shown if passes else None

    def show_all(self, events: Sequence[Event]) -> tuple[Alike, tuple[str, ...]] | None:
        """The same for events of one version: in place of each one or None, and by which rules.

        None if each has to be looked at by itself. Raises where that would show what cannot be done.
        """
        if not self._lax or len(self.judges) > 1:
            return None
        visible = self.restriction.visible
        passing: Alike = events
        if self._holds is not None:
            passing = sift(self.restriction.filter, events)
        if self._only is not None:
            return self._only.show_all(passing, visible)
        return [each.narrowed(visible) if each is not None else None for each in passing], ()

    def transform(self, event: Event, now: float) -> tuple[Event, ...]:
        """What rules make of an event that is published: the very same, or others in its place, or nothing."""
        shown = self._judged(event, now)
        return shown.events if shown is not None else ()

    def _judged(
        self, event: Event, now: float, visible: frozenset[str] | None = None, past: bool = False
    ) -> Shown | None:
        """What all rules make of an event; None for nothing.

        What one has made an event of another type, the next do not speak of: they must let the event itself through,
        and make nothing of it.
        """
        if not self.judges:
            return Shown((event.narrowed(visible),), ())
        events: tuple[Event, ...] = (event,)
        ids: tuple[str, ...] = ()
        for judge in self.judges:
            found: list[Event] = []
            own: tuple[str, ...] = ()
            for each in events:
                shown = judge.show(each if each.type == event.type else event, now, visible, past)
                if shown is not None:
                    own = shown.rules
                    found += shown.events if each.type == event.type else (each,) if not judge.changes else ()
            events, ids = tuple(found), (*ids, *own)
        return Shown(events, ids) if events else None

    def _passes(self, event: Event, values: Values, size: int, now: float) -> bool:
        """Whether what only this broker can tell is well."""
        if event.version in self.restriction.foreign:
            return False
        occasion = Occasion(event, size, now)
        return all(self._check(test, check, occasion) for test, check in self._checks) and self._use(
            values, now
        )

    def _check(self, test: Generic, check: Check, occasion: Occasion) -> bool:
        values = occasion.event.attributes
        bound = {name: values.get(id_) for name, id_ in check.attributes.items()}
        try:
            return bool(test({**check.constants, **bound}, occasion))
        except Exception:  # somebody else's code, on somebody else's event
            return False

    def _use(self, values: Values, now: float) -> bool:
        """Use the first grant that lets the event through, if grants are to be chosen from."""
        return not self._options or any(
            holds(values) and (metered is None or self.ledger.use(self.client, metered, now))
            for holds, metered in self._options
        )
