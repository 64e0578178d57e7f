"""Deduplication: which events a reader has seen, as bitmaps, and from when on to ask again after a loss.

An event is known by publisher, number and time, and by its type, since rules may make several of one. A publisher
numbers its events one after the other, so those of about the same number and time are remembered together, by a bit
each: a number stands for one event in a minute. Invariant: among the newest runs that are remembered, no event is
called new twice; whoever asks again for everything from `resume` on misses nothing whose publisher's clock was less
than `LOOKBACK` behind the others, and gets again only what is remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TypeAlias

from pubsub_core.events.event import Event

LOOKBACK = 300.0
"""Seconds for which events are remembered for deduplication."""
MOST = 65_536
RUN_BITS = 9
"""Numbers in a run, as a power of two."""
RUN_SECONDS = 64.0
"""Seconds that a run spans."""

Run: TypeAlias = tuple[bytes, str, int, float]


class Seen:
    """The newest events that were seen."""

    def __init__(self, start: float, most: int = MOST) -> None:
        """`start` is from when on everything was asked for; `most` is how many runs are remembered."""
        self._start = self._newest = start
        self._most = most
        self._runs: OrderedDict[Run, int] = OrderedDict()
        """The bits of each, in the order in which they were begun."""
        self._forgotten = -inf
        """Before this time something is no longer remembered."""

    def is_new(self, event: Event) -> bool:
        """Whether this is the first time; from now on it is not."""
        sequence, time = event.sequence, event.time
        run = event.publisher, event.type, sequence >> RUN_BITS, time // RUN_SECONDS
        bit = 1 << (sequence & ((1 << RUN_BITS) - 1))
        bits = self._runs.get(run, 0)
        if bits & bit:
            return False
        self._runs[run] = bits | bit
        if len(self._runs) > self._most:
            (*_, minute), _ = self._runs.popitem(last=False)
            self._forgotten = max(self._forgotten, (minute + 1) * RUN_SECONDS)
        if time > self._newest:
            self._newest = time
        return True

    @property
    def resume(self) -> float:
        """From when on to ask again."""
        return max(self._start, min(self._newest, max(self._newest - LOOKBACK, self._forgotten)))
