"""Resumption of a replay: how far a reader has come in past events, which come in order of time.

Invariant: whoever asks again for everything from `start` on, and drops what is not new, has each event once.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubsub_core.events import Event
from pubsub_core.messages import Sent, Unfinished

MOST_OVER = 1024
"""Maximum finished replays that are remembered."""


class Progress:
    """Of one replay."""

    def __init__(self) -> None:
        self.start: float | None = None
        """The time of the last event, with which whatever is missing begins."""
        self._last: set[tuple[bytes, int, str]] = set()
        """The events of that time that were read: there may be any number of one moment."""

    def is_new(self, event: Event) -> bool:
        """Whether this is the first time; from now on it is not."""
        name = event.publisher, event.sequence, event.type
        if self.start is None or event.time > self.start:
            self.start, self._last = event.time, {name}
            return True
        known = name in self._last
        self._last.add(name)
        return not known


class RuleReplays:
    """The replays that rules have started for a subscription and that are not over, by their tickets."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, Progress] = {}
        self._over: dict[bytes, None] = {}
        """Those that are: a broker that was killed before it knew may send them again."""
        self._current: Progress | None = None

    @property
    def unfinished(self) -> tuple[Unfinished, ...]:
        """What to have sent on."""
        return tuple(Unfinished(ticket, each.start) for ticket, each in self._under_way.items())

    def follow(self, sent: Sent) -> None:
        """What is read from now on is of this replay."""
        over = sent.ticket in self._over
        self._current = None if over else self._under_way.setdefault(sent.ticket, Progress())

    def is_new(self, event: Event) -> bool:
        return self._current is not None and self._current.is_new(event)

    def end(self, ticket: bytes) -> None:
        self._under_way.pop(ticket, None)
        self._over[ticket] = None
        if len(self._over) > MOST_OVER:
            del self._over[next(iter(self._over))]

    def expect(self, unread: Iterable[object]) -> None:
        """Of these words, which will not be read, keep in mind which replays have begun."""
        for each in unread:
            if isinstance(each, Sent) and each.ticket not in self._over:
                self._under_way.setdefault(each.ticket, Progress())
