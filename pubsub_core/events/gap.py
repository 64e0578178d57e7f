"""Gaps: what a subscriber is told, in its place among the events, where events are missing."""

from __future__ import annotations

import enum
from math import inf, nextafter
from typing import NoReturn

import msgspec

from pubsub_core.errors import EventsMissed
from pubsub_core.types import EventType

CLOCK_MARGIN = 10.0
"""Seconds by which the times of a gap are widened where they come from different clocks."""


class GapReason(enum.StrEnum):
    """Why events are missing."""

    SESSION = "session"
    """The client's session was lost, with what its broker had not delivered."""
    SLOW_CONSUMER = "slow-consumer"
    """More events waited for the client than its broker keeps."""
    CARRIAGE = "carriage"
    """Another broker restarted, was out of reach, or no longer had what was lost on the way."""
    KEYS = "keys"
    """A broker did not have the keys in time by which the events are sealed."""
    OWNER = "owner"
    """The owner of the type was out of reach of the broker, which then delivers nothing of it."""
    UNREADABLE = "unreadable"
    """Events that could not be sent, or that do not fit the definition of their type."""
    HISTORY = "history"
    """Past events that were asked for could not be had."""


class Missed(msgspec.Struct, frozen=True, tag_field="word", tag="missed"):
    """A gap as a broker tells a client: events published from one time until before another."""

    reason: GapReason
    detail: str
    start: float
    end: float
    count: int | None = None
    """How many, if that is known."""

    def joined(self, later: Missed) -> Missed:
        """One gap in place of two with nothing between them."""
        count = None if self.count is None or later.count is None else self.count + later.count
        start, end = min(self.start, later.start), max(self.end, later.end)
        return Missed(later.reason, later.detail, start, end, count)


class Gap(msgspec.Struct, frozen=True):
    """Events of a subscription that are missing here, or may be: a value among the events that are read.

    `client.replay(gap.type.name, from_=gap.from_, to=gap.to)` reads them, where brokers keep a history. To use a gap as
    if it were an event, `gap["name"]`, raises EventsMissed.
    """

    type: EventType
    """The type that was subscribed to; events of its sub-types may be missing, too."""
    from_: float
    """No missing event was published before this time, in Unix seconds."""
    to: float
    """Every missing event was published before this time."""
    count: int | None
    """How many events are missing; None if nobody knows, or whether any are."""
    reason: GapReason
    detail: str

    def __getitem__(self, name: str) -> NoReturn:
        raise EventsMissed(self.type.name, str(self))

    def __str__(self) -> str:
        number = "events" if self.count is None else f"{self.count} events"
        may = "may be" if self.count is None else "are"
        return f"{number} of `{self.type.name}` {may} missing ({self.reason}): {self.detail}"


def after(time: float) -> float:
    """The first time after another: where a gap ends whose last event was published then."""
    return nextafter(time, inf)
