"""How far a reader has come in past events, which come in order of time, so that it can go on after a loss.

Invariant: whoever asks again for everything from `start` on, and drops what is not new, has each event once.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubsub_core.event import Event
from pubsub_core.messages import Sent, Unfinished


class Progress:
    """Of one replay."""

    def __init__(self) -> None:
        self._last: list[Event] = []
        """The events read last, which were published at the same moment."""

    @property
    def start(self) -> float | None:
        """The time of the last event, with which whatever is missing begins."""
        return self._last[-1].time if self._last else None

    def is_new(self, event: Event) -> bool:
        """Whether this is the first time; from now on it is not."""
        if not self._last or event.time > self._last[-1].time:
            self._last = [event]
            return True
        name = event.publisher, event.sequence, event.type
        known = any(name == (each.publisher, each.sequence, each.type) for each in self._last)
        if not known:
            self._last.append(event)
        return not known


class RuleReplays:
    """The replays that rules have started for a subscription and that are not over, by their tickets."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, Progress] = {}
        self._current = Progress()

    @property
    def unfinished(self) -> tuple[Unfinished, ...]:
        """What to have sent on."""
        return tuple(Unfinished(ticket, each.start) for ticket, each in self._under_way.items())

    def follow(self, sent: Sent) -> None:
        """What is read from now on is of this replay."""
        self._current = self._under_way.setdefault(sent.ticket, Progress())

    def is_new(self, event: Event) -> bool:
        return self._current.is_new(event)

    def end(self, ticket: bytes) -> None:
        self._under_way.pop(ticket, None)

    def expect(self, unread: Iterable[object]) -> None:
        """Of these words, which will not be read, keep in mind which replays have begun."""
        for each in unread:
            if isinstance(each, Sent):
                self._under_way.setdefault(each.ticket, Progress())
