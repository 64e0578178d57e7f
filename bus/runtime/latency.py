"""A latency histogram that costs a bisection and two additions for each observation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the buckets, in seconds; one without a bound follows."""


class Latencies:
    """How long things took."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def absorb(self, counts: Iterable[int]) -> None:
        """Count what somebody else has counted, bucket by bucket."""
        self.counts = [own + more for own, more in zip(self.counts, counts, strict=True)]

    def add(self, seconds: float, count: int = 1) -> None:
        """Count things that took this long each."""
        self.counts[bisect_left(BOUNDS, seconds)] += count
        self.total += seconds * count

    def quantile(self, share: float) -> float:
        """The time within which this share of all was done, as the upper bound of its bucket; 0 if there was none."""
        sums = list(accumulate(self.counts))
        if not sums[-1]:
            return 0.0
        number = bisect_left(sums, share * sums[-1])
        return BOUNDS[min(number, len(BOUNDS) - 1)]

    def metric(self, name: str, meaning: str) -> HistogramMetricFamily:
        from prometheus_client.core import HistogramMetricFamily  # which only those load who are scraped

        bounds = [*map(str, BOUNDS), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self.counts)), strict=True))
        return HistogramMetricFamily(name, meaning, buckets=buckets, sum_value=self.total)
