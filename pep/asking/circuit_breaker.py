"""A circuit breaker: while the fabric is dead, a call costs microseconds instead of a timeout."""

from __future__ import annotations

ANSWERED_SECONDS = 3.5
"""How long an answer shows that a replica is there, whatever it says: one without a lease may get it back."""


class Circuit:
    """Open while no replica has been heard of for its lifetime and the last question failed.

    Replicas announce themselves all the time, and answer even if they cannot decide, so silence means that none is
    there. While the circuit is open one question in each probe interval is let through, and the first answer or
    announcement closes it.
    """

    def __init__(self, probe_seconds: float = 0.1) -> None:
        self._probe_seconds = probe_seconds
        self._heard_until = 0.0
        self.failing = False
        """Whether the last question was given up."""
        self._next_probe = 0.0

    def heard(self, now: float, ttl: float) -> None:
        """Some replica is there and will announce itself again within `ttl`."""
        self._heard_until = max(self._heard_until, now + ttl)

    def answered(self, now: float) -> None:
        """Some replica has answered."""
        self.failing = False
        self.heard(now, ANSWERED_SECONDS)

    def reset(self) -> None:
        """Ask as if no question had failed."""
        self.failing = False

    def failed(self, now: float) -> None:
        """A question was given up."""
        if not self.failing:
            self.failing = True
            self._next_probe = now + self._probe_seconds

    def is_open(self, now: float) -> bool:
        return self.failing and now > self._heard_until

    def admits(self, now: float) -> bool:
        """Whether to ask at all: always while closed, once in each interval while open."""
        if not self.is_open(now):
            return True
        if now < self._next_probe:
            return False
        self._next_probe = now + self._probe_seconds
        return True
