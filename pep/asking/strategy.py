"""How a PEP asks: all replicas, one, or one with hedged further requests; and when it retries."""

from __future__ import annotations

import enum
from collections import deque

from bus.wire import Mode

RETRY_SECONDS = 0.025
"""The first wait before a question that got no answer is asked again; each further wait is twice as long."""


ESCALATION = ((Mode.ANY,), (Mode.ANY,), (Mode.ANY, Mode.ANY), (Mode.ALL,))
"""Whom each attempt asks: one replica, one more, two more, and only then all. Load does not grow with the replicas."""


class Strategy(enum.StrEnum):
    """How a PEP asks: all replicas at once, one of them, or one and then more if the answer is late."""

    FLOOD = "flood"
    QUEUE = "queue"
    HEDGE = "hedge"

    def modes(self, attempts: int) -> tuple[Mode, ...]:
        """Whom to ask after a number of attempts."""
        if self is Strategy.HEDGE:
            return escalation(attempts)
        return (Mode.ALL,) if self is Strategy.FLOOD else (Mode.ANY,)


def escalation(attempts: int) -> tuple[Mode, ...]:
    """Whom to ask after a number of attempts that were of no help."""
    return ESCALATION[min(attempts, len(ESCALATION) - 1)]


class HedgeDelay:
    """How long an answer usually takes at most: a high quantile of recent answer times, with room to spare.

    Only the time from an attempt to its own answer is learned. What a silent replica cost before the second
    attempt is not, or one frozen replica would make the PEP ever more patient.
    """

    SAMPLES = 256
    EVERY = 32
    QUANTILE = 0.98
    MARGIN = 1.5

    def __init__(self, initial: float = 0.02, least: float = 0.002, most: float = 0.25) -> None:
        self.seconds = initial
        self._least = least
        self._most = most
        self._recent: deque[float] = deque(maxlen=self.SAMPLES)
        self._until_update = self.EVERY

    def learn(self, seconds: float) -> None:
        self._recent.append(seconds)
        self._until_update -= 1
        if self._until_update == 0:
            self._until_update = self.EVERY
            slow = sorted(self._recent)[int(len(self._recent) * self.QUANTILE)]
            self.seconds = min(max(slow * self.MARGIN, self._least), self._most)
