"""The clocks of other brokers: whose signs of life are ignored since they are dated too far from now, and by how much.

Whoever plays back what a broker said an hour ago looks like a broker whose clock is an hour behind. So nothing is held
against a broker that is heard at the same time with the right time, and nothing but words follows from it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

MAX_SKEW = 10.0
"""Seconds by which the clocks of brokers may differ."""
MAX_SKEWED = 64
"""Maximum brokers whose clock skew is reported."""
FORGET_SECONDS = 5.0
"""Seconds without a message after which a broker's clock skew is no longer reported."""

_log = logging.getLogger("authfabric.events")


@dataclass(slots=True)
class _Skewed:
    said: float
    """The time by its own clock, when it was last heard."""
    heard: float
    told: float
    """The skew that was logged."""

    @property
    def skew(self) -> float:
        return self.said - self.heard


class Clocks:
    """Which brokers' clocks are so wrong, or so right, that they and this one ignore each other."""

    def __init__(self) -> None:
        self._skewed: dict[str, _Skewed] = {}

    @property
    def skews(self) -> Mapping[str, float]:
        """By how many seconds each of them is ahead of this one, by name; less than 0 if it is behind."""
        return {name: each.skew for name, each in tuple(self._skewed.items())}

    def ignored(self, name: str, said: float, now: float) -> None:
        """A sign of life was ignored that is dated so."""
        known = self._skewed.get(name)
        if known is None:
            if len(self._skewed) < MAX_SKEWED and name.isprintable():
                self._skewed[name] = _Skewed(said, now, said - now)
                self._tell(name, said - now)
        elif said > known.said:
            known.said, known.heard = said, now
            if abs(known.skew - known.told) > MAX_SKEW:
                known.told = known.skew
                self._tell(name, known.skew)

    def believed(self, name: str) -> None:
        """A sign of life was dated as it should be."""
        if self._skewed.pop(name, None) is not None:
            _log.warning("the clock of broker %s agrees with this one's again", name)

    def tick(self, now: float) -> None:
        """Forget those who are not heard any more."""
        for name in [n for n, each in self._skewed.items() if now - each.heard > FORGET_SECONDS]:
            del self._skewed[name]

    def _tell(self, name: str, skew: float) -> None:
        way = "ahead" if skew > 0 else "behind"
        _log.warning(
            "the clock of broker %s is %s s %s: it is ignored, and ignores this one; clocks may differ by %g s",
            name,
            f"{abs(skew):,.0f}",
            way,
            MAX_SKEW,
        )
