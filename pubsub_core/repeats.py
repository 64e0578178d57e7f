"""What other brokers have sent last, so that what one sends once more after it was killed is not delivered twice.

A broker that is killed after it has passed events on, and before it has told their publisher so, is sent them again
when it is back, and knows nothing of the first time. Its line begins anew, and so do the proofs; but the events are the
same, by publisher, number, time and type. Nothing is compared before a line has begun anew: until then, to keep what
came costs next to nothing. Invariant: what is called a repetition has come before, from the same broker.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from pubsub_core.event import Event, decode

Name: TypeAlias = tuple[bytes, int, float, str]
Read: TypeAlias = tuple[msgspec.Raw, Event]

MOST = 8192
"""So many events of each broker are remembered: what a publisher may have on its way."""
MOST_BYTES = 4 * 1024 * 1024
DOUBT_SECONDS = 600.0
"""For so long after a broker has started anew, events are compared, and what a silent one has sent is remembered."""


@dataclass(slots=True)
class _Last:
    """The last events of one broker, as they came, each message by itself."""

    messages: deque[tuple[list[msgspec.Raw], int]] = field(default_factory=deque)
    count: int = 0
    size: int = 0
    at: float = 0.0

    def add(self, events: list[msgspec.Raw], size: int, now: float) -> None:
        self.messages.append((events, size))
        self.count += len(events)
        self.size += size
        self.at = now
        while self.count > MOST or self.size > MOST_BYTES:
            events, size = self.messages.popleft()
            self.count -= len(events)
            self.size -= size


class Repeats:
    """Knows repetitions."""

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}
        self._doubtful: dict[str, tuple[float, frozenset[Name]]] = {}
        """For each broker that has started anew, what it sent before that, and until when it may come again."""

    def new(self, sender: str, events: list[Read], size: int, now: float) -> list[Read]:
        """Those of some events from a broker that are no repetitions; from now on they are known.

        `size` is how many bytes the message has that they came in.
        """
        doubtful = self._doubtful.get(sender)
        if doubtful is not None:
            events = [each for each in events if _name(each[1]) not in doubtful[1]]
        if events:
            last = self._last.get(sender) or self._last.setdefault(sender, _Last())
            last.add([raw for raw, _ in events], size, now)
        return events

    def doubt(self, sender: str, now: float) -> None:
        """A broker has started anew, or is met: what it has sent before may come again."""
        last = self._last.pop(sender, None)
        if last is not None:
            names = {_name(decode(raw)) for events, _ in last.messages for raw in events}
            _, before = self._doubtful.get(sender, (0.0, frozenset[Name]()))
            known = names | before if len(names) + len(before) <= 2 * MOST else names
            self._doubtful[sender] = now + DOUBT_SECONDS, frozenset(known)

    def forget(self, now: float) -> None:
        """Forget what will not come again."""
        self._doubtful = {sender: each for sender, each in self._doubtful.items() if now < each[0]}
        self._last = {name: each for name, each in self._last.items() if now - each.at <= DOUBT_SECONDS}


def _name(event: Event) -> Name:
    """What an event is known by; by its type, too, since rules may make several of one."""
    return event.publisher, event.sequence, event.time, event.type
