"""Rates in rules: how many events each client was sent lately under `at_most(count, 'span', …)`.

Invariants: an event that was let through once is let through again without being counted twice, so that what is sent
again is not lost; counts outlive sessions, and what is kept of them outlives the broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from pubsub_core.events import Event

FEW = 4096
"""Maximum counts before expired ones are dropped."""
Who: TypeAlias = tuple[str, str, tuple[object, ...]]
"""A client, a rate as it is written, and the values that it counts by."""
Sent: TypeAlias = tuple[float, bytes, int]
"""When an event was sent, its publisher and its number."""
Counted: TypeAlias = tuple[Who, float, list[Sent]]


class Rates:
    """What was sent lately, for each client, rate and values. Pure: time goes in."""

    def __init__(self) -> None:
        self._sent: dict[Who, tuple[float, deque[Sent]]] = {}
        """With how many seconds matter."""
        self._limit = FEW
        self.changed = False
        """Whether something was counted since this was last set to false."""

    def permits(self, who: Who, count: int, seconds: float, event: Event, now: float) -> bool:
        """Whether one more event may be sent now, or this one again."""
        _, sent = self._sent.get(who, (seconds, ()))
        lately = [each for each in sent if each[0] > now - seconds]
        return len(lately) < count or any(each[1:] == (event.publisher, event.sequence) for each in lately)

    def count(self, who: Who, seconds: float, event: Event, now: float) -> None:
        """An event is sent."""
        sent = self._sent.setdefault(who, (seconds, deque()))[1]
        while sent and sent[0][0] <= now - seconds:
            sent.popleft()
        if not any(each[1:] == (event.publisher, event.sequence) for each in sent):
            sent.append((now, event.publisher, event.sequence))
            self.changed = True
        if len(self._sent) > self._limit:
            self._sent = {key: each for key, each in self._sent.items() if each[1][-1][0] > now - each[0]}
            self._limit = max(FEW, 2 * len(self._sent))

    def counted(self) -> list[Counted]:
        """Everything, to be kept."""
        return [(who, seconds, list(sent)) for who, (seconds, sent) in self._sent.items()]

    def restore(self, counted: Iterable[Counted]) -> None:
        """Go on from what was kept."""
        for (client, rate, values), seconds, sent in counted:
            self._sent[client, rate, tuple(values)] = seconds, deque(sent)
