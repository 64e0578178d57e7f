"""A sliding-window rate limiter for replays: a maximum of events in any span of a given length."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from authz.rules import Rate

LONGEST = 31 * 86_400.0
"""Maximum seconds for which sent events are counted, whatever the span of a rule."""


@dataclass(slots=True)
class Pace:
    """What was sent lately. Pure: time goes in.

    Invariant: what a rule with the longest span that was asked about would count is still there, so that rules with
    shorter ones beside it forget nothing for it.
    """

    _sent: deque[tuple[float, int]] = field(default_factory=deque)
    _span: float = 0.0

    @property
    def sent(self) -> list[tuple[float, int]]:
        """When how many were sent."""
        return list(self._sent)

    def matters(self, now: float) -> bool:
        """Whether any rule could still look at it."""
        return bool(self._sent) and self._sent[-1][0] > now - LONGEST

    def room(self, rate: Rate, now: float) -> int:
        """How many more may be sent now."""
        self._span = max(self._span, rate.seconds)
        while self._sent and self._sent[0][0] <= now - self._span:
            self._sent.popleft()
        return max(0, rate.count - sum(count for at, count in self._sent if at > now - rate.seconds))

    def send(self, count: int, now: float) -> None:
        if count:
            self._sent.append((now, count))

    def wait(self, rate: Rate, now: float) -> float:
        """Seconds until there is room again, if there is none."""
        counted = (at for at, _ in self._sent if at > now - rate.seconds)
        return max(0.0, next(counted, now - rate.seconds) + rate.seconds - now)
