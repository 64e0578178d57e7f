"""Events sent at a steady pace, with dummies where there is nothing to say, so that silence tells nothing."""

from __future__ import annotations


class Pace:
    """Says how many dummies to send so that at least one event goes out in each interval."""

    def __init__(self, interval: float, now: float) -> None:
        self._interval = interval
        self._next = now + interval
        self._busy = False

    def sent(self) -> None:
        """A true event has gone out."""
        self._busy = True

    def due(self, now: float) -> int:
        """How many dummies are due now; the interval that is over counts, those slept through do not."""
        if now < self._next:
            return 0
        missing = 0 if self._busy else 1
        behind = now - self._next
        self._next += self._interval * (1 + behind // self._interval)
        self._busy = False
        return missing
