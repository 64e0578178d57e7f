"""A circuit breaker: while the fabric is dead, a call costs microseconds instead of a timeout."""

from __future__ import annotations

ANSWERED_SECONDS = 3.5
"""How long an answer shows that a replica is there, whatever it says: one without a lease may get it back."""


class Circuit:
    """Open while no replica has been heard of for its lifetime and the last question failed.

    Replicas announce themselves all the time, and answer even if they cannot decide, so silence means that none is
    there. While the circuit is open no question is let through: in the background replicas are asked who is there, and
    the first announcement closes it.
    """

    def __init__(self) -> None:
        self._heard_until = 0.0
        self.failing = False
        """Whether the last question was given up."""

    def heard(self, now: float, ttl: float) -> None:
        """Some replica is there and will announce itself again within `ttl`."""
        self._heard_until = max(self._heard_until, now + ttl)

    def answered(self, now: float) -> None:
        """Some replica has answered."""
        self.failing = False
        self.heard(now, ANSWERED_SECONDS)

    def reset(self, now: float, grace: float) -> None:
        """Ask as if no question had failed. Replicas that are silent for `grace` may yet come back."""
        self.failing = False
        self.heard(now, grace)

    def failed(self) -> None:
        """A question was given up."""
        self.failing = True

    def is_open(self, now: float) -> bool:
        return self.failing and now > self._heard_until
