"""Backpressure: publishers wait for subscribers that are behind, as long as those read, and not for ever.

A publisher's bundle is acknowledged when nobody whom its events are for is behind. Invariant: a bundle waits no longer
than the subscribers it waits for are waited for; each of them is until it has caught up, stops reading, or has been
behind for too long. Then it is not waited for again before it has caught up.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass

HIGH = 8_192
"""High watermark: publishers wait for a client with more queued events."""
LOW = 4_096
"""Low watermark: publishers go on when it has no more queued events."""
STRIDE = 512
"""A client reads if it acknowledges this many events within STALL_SECONDS."""
STALL_SECONDS = 5.0
"""How long publishers wait for a client that does not read."""
MAX_BEHIND_SECONDS = 60.0
"""How long publishers wait for a client that reads and does not catch up."""


@dataclass(slots=True)
class Lag:
    """How far one client is behind, and whether publishers wait for it. Pure: time goes in."""

    behind: bool = False
    """Whether publishers wait for it."""
    _given_up: bool = False
    _since: float = 0.0
    _read_at: float = 0.0
    _read: int = 0

    def look(self, waiting: int, received: int, now: float) -> bool:
        """Look again: `waiting` events wait, and it has received everything up to `received`. Returns `behind`."""
        if waiting <= LOW:
            self.behind = self._given_up = False
        elif self.behind:
            if received - self._read >= STRIDE:
                self._read, self._read_at = received, now
            late = now - self._read_at > STALL_SECONDS or now - self._since > MAX_BEHIND_SECONDS
            self.behind, self._given_up = not late, late
        elif waiting > HIGH and not self._given_up:
            self.behind, self._since, self._read_at, self._read = True, now, now, received
        return self.behind


class Backpressure:
    """Callbacks that wait until given subscribers are no longer behind."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Hashable, list[_Waiting]] = defaultdict(list)
        self._due: deque[_Waiting] = deque()
        self._releasing = False

    def wait(self, behind: Collection[Hashable], release: Callable[[], None]) -> None:
        """Call back when nobody of these is behind any more."""
        waiting = _Waiting(set(behind), release)
        for each in behind:
            self._waiting[each].append(waiting)

    def clear(self, who: Hashable) -> None:
        """Somebody is no longer behind, or not waited for."""
        for each in self._waiting.pop(who, ()):
            each.behind.discard(who)
            if not each.behind:
                self._due.append(each)
        if self._releasing:
            return
        self._releasing = True
        try:
            while self._due:
                self._due.popleft().release()
        finally:
            self._releasing = False


@dataclass(slots=True, eq=False)
class _Waiting:
    behind: set[Hashable]
    release: Callable[[], None]
