"""The lease of a release: how long it stays in force after the store last confirmed that it is the newest.

It runs from the instant that the confirmation speaks of, not from its arrival: a message that was held up extends
nothing.
"""

from __future__ import annotations

from time import monotonic

DEFAULT_LEASE = 15.0
"""Seconds for which a release stays in force after the store last confirmed it: outlasts a change of its leader."""


class ReleaseLease:
    """What one member holds. Instants are of the monotonic clock."""

    __slots__ = ("confirmed_at", "seconds")

    def __init__(self, seconds: float | None = DEFAULT_LEASE) -> None:
        self.seconds = seconds
        """None: for good."""
        self.confirmed_at = float("-inf")
        """The last instant at which the release was known to be the newest."""

    def extend(self, at: float) -> None:
        """The release was the newest at this instant."""
        self.confirmed_at = at

    @property
    def stale_for(self) -> float:
        """Seconds since the lease ended; negative while it lasts."""
        if self.seconds is None:
            return float("-inf")
        return monotonic() - self.confirmed_at - self.seconds
