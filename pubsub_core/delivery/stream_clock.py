"""A broker's own clock, compared with the clock of the servers that date parcels.

The servers' clock is known as a difference to the monotonic one: so this clock is found to be wrong as soon as it is
set, and not when the servers are asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from pubsub_core.events import WINDOW

MARGIN = 2.0
"""Maximum seconds that a parcel takes to the servers."""
WRONG = (
    "the clock of broker {} is {:,.0f} s {} that of the servers, and others take events within {:g} s of that"
)

_log = logging.getLogger("authfabric.events")


@dataclass(slots=True)
class StreamClock:
    """What is known of the servers' clock; nothing at first, and then nothing is wrong."""

    monotonic: Callable[[], float] = monotonic
    _least: float = -inf
    _most: float = inf
    """By how much it is ahead of the monotonic clock."""
    _wrong: bool = field(default=False)

    def measure(self, said: float, asked: float, answered: float) -> None:
        """It showed `said` between these two instants of the monotonic clock."""
        self._least, self._most = said - answered, said - asked

    def skew(self, now: float) -> float:
        """By how many seconds a clock that shows `now` is ahead at least; less than 0 if it is behind."""
        at = self.monotonic()
        return max(0.0, now - at - self._most) + min(0.0, now - at - self._least)

    def problem(self, now: float, name: str) -> str:
        """What is wrong if nobody would believe what a broker of this name signs now; it is logged once."""
        skew = self.skew(now)
        wrong = abs(skew) > WINDOW - MARGIN
        said = WRONG.format(name, abs(skew), "ahead of" if skew > 0 else "behind", WINDOW) if wrong else ""
        if wrong and not self._wrong:
            _log.warning("%s: its clients publish nothing", said)
        elif self._wrong and not wrong:
            _log.warning("the clock of broker %s agrees with that of the servers again", name)
        self._wrong = wrong
        return said
