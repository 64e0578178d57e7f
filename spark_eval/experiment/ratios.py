"""How many times as long one variant takes as another: a ratio with its interval, free of any distribution.

The variants of a figure take turns, so that windows of requests are pairs: each gives one ratio. Their median is
reported, with its interval by order statistics. A verdict is about the whole interval, and open where it straddles a
bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, sqrt
from statistics import NormalDist, median
from typing import NamedTuple

from spark_eval.experiment.aggregate import CONFIDENCE
from spark_eval.experiment.points import TimePoint


class Ratio(NamedTuple):
    """A ratio with the bounds of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} times ({self.low:.2f} to {self.high:.2f})"

    def within(self, least: float, most: float) -> bool | None:
        """Whether it lies between the bounds; None if its interval lies on one."""
        if least <= self.low and self.high <= most:
            return True
        return False if self.high < least or self.low > most else None


def ratio(points: Sequence[TimePoint], variant: str, to: str, measure: str = "median") -> Ratio:
    """How many times as long `variant` takes as `to`."""
    by = {(point.variant, point.request): getattr(point, measure) for point in points}
    ratios = sorted(
        by[variant, request] / by[to, request] for name, request in by if name == variant and by[to, request]
    )
    count = len(ratios)
    spread = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) / 2 * sqrt(count)
    low, high = max(floor(count / 2 - spread), 1), min(ceil(count / 2 + spread) + 1, count)
    return Ratio(median(ratios), ratios[low - 1], ratios[high - 1])
