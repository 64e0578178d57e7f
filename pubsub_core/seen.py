"""Which events a reader has seen, so that none is read twice, and from when on to ask again after a loss.

An event is known by publisher, number and time, and by its type, since rules may make several of one. Invariant: among
the newest events that are remembered, none is called new twice; whoever asks again for everything from `resume` on
misses nothing whose publisher's clock was less than `LOOKBACK` behind the others, and gets again only what is
remembered.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

from pubsub_core.event import Event

LOOKBACK = 300.0
"""Seconds."""
MOST = 65_536

Name: TypeAlias = tuple[bytes, int, float, str]


class Seen:
    """The newest events that were seen."""

    def __init__(self, start: float, most: int = MOST) -> None:
        """`start` is from when on everything was asked for."""
        self._start = start
        self._most = most
        self._known: set[Name] = set()
        self._order: deque[Name] = deque()
        self._newest = start

    def is_new(self, event: Event) -> bool:
        """Whether this is the first time; from now on it is not."""
        name = event.publisher, event.sequence, event.time, event.type
        if name in self._known:
            return False
        self._known.add(name)
        self._order.append(name)
        self._newest = max(self._newest, event.time)
        while len(self._order) > self._most:
            self._known.discard(self._order.popleft())
        return True

    @property
    def resume(self) -> float:
        """From when on to ask again."""
        earliest = self._order[0][2] if len(self._order) == self._most else self._start
        return max(self._start, min(self._newest, max(self._newest - LOOKBACK, earliest)))
