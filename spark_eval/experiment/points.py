"""The points of the experiments' figures, as the aggregation gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, hypot, inf, sqrt
from statistics import NormalDist, median
from typing import NamedTuple

import msgspec
from pyspark.sql import Row

from spark_eval.experiment.aggregate import CONFIDENCE
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.formula import decrease, spread_of_spaces
from spark_eval.experiment.machine import Machine
from spark_eval.experiment.recovery import RecoveryCurve, RecoveryPoint
from spark_eval.schemas import LIVE

TELLING = 0.1
"""Half the width of an interval up to which it tells whether a point agrees: any value lies in a wider one."""


class AvailabilityPoint(msgspec.Struct, frozen=True):
    """What one source says of one cell. Shares are of requests; the margin is half the interval's width."""

    source: str
    cell: Cell
    observations: int
    requests: int
    failing: float
    failing_p2p: float
    decrease: float
    margin: float
    expected: float
    """What the formula says the decrease is."""
    recycled: float = 0.0
    asked: float | None = None
    """Replicas asked for each request, repetitions included."""

    @property
    def agrees(self) -> bool | None:
        """Whether the interval holds what the formula says; None if it does, and is too wide to show anything."""
        if abs(self.decrease - self.expected) > self.margin:
            return False
        return True if self.margin <= TELLING else None


class Pace(msgspec.Struct, frozen=True):
    """How a live cell was asked: seconds from one request to the next, and until answers came."""

    cell: Cell
    runs: int
    interval: float
    median: float | None
    p99: float | None


class TimePoint(msgspec.Struct, frozen=True):
    """The response times of consecutive requests up to this one, in seconds: the median with its interval, the mean."""

    figure: str
    variant: str
    request: int
    median: float
    low: float
    high: float
    recycled: float
    mean: float


class TimeSummary(msgspec.Struct, frozen=True):
    """The response times of one variant over all its requests, in seconds."""

    figure: str
    variant: str
    requests: int
    failed: int
    recycled: float
    mean: float
    median: float
    p99: float


class HitRate(msgspec.Struct, frozen=True):
    """How many requests a cache answered that had learned a share of all possible answers in one way."""

    asked: str
    """What could be asked."""
    way: str
    learned: float
    hits: int
    requests: int

    @property
    def rate(self) -> float:
        return self.hits / self.requests

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's, 95 %."""
        weight = 1.96**2 / self.requests
        middle = (self.rate + weight / 2) / (1 + weight)
        margin = (self.rate * (1 - self.rate) * weight + weight**2 / 4) ** 0.5 / (1 + weight)
        return middle - margin, middle + margin


class Twins(msgspec.Struct, frozen=True):
    """Live runs beside the simulated runs of the same samples: how many there are, and how many failed alike."""

    runs: int = 0
    alike: int = 0
    requests: int = 0


class Result(msgspec.Struct, frozen=True):
    """What came out of an experiment."""

    availability: list[AvailabilityPoint] = []
    twins: Twins = Twins()
    response_time: list[TimeSummary] = []
    curves: list[TimePoint] = []
    paces: list[Pace] = []
    hit_rates: list[HitRate] = []
    recovery: list[RecoveryPoint] = []
    recovery_curves: list[RecoveryCurve] = []
    machine: Machine = Machine()
    failures: dict[str, str] = {}
    """What could not be measured, and why."""

    @property
    def differing(self) -> list[AvailabilityPoint]:
        """The points whose interval does not hold what the formula says."""
        return [point for point in self.availability if point.agrees is False]

    @property
    def untold(self) -> list[AvailabilityPoint]:
        """The points whose interval is too wide to show anything."""
        return [point for point in self.availability if point.agrees is None]


def availability_points(rows: Sequence[Row], population: Population) -> list[AvailabilityPoint]:
    """The points with what the formula says of each.

    Batches of a live run have its object spaces in common. What another draw of them would change is added to their
    interval: computed, since a few runs cannot show it. Simulated runs each draw their own.
    """
    quantile = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / max(len(rows), 1) / 2)
    points = []
    for row in rows:
        fields = row.asDict()
        cell = msgspec.convert({name: fields.pop(name) for name in Cell.__struct_fields__}, Cell)
        point = msgspec.convert(
            {**fields, "cell": cell, "expected": decrease(cell, population)}, AvailabilityPoint
        )
        if point.source == LIVE:
            spread = spread_of_spaces(cell, population) / sqrt(point.requests / population.requests)
            point = msgspec.structs.replace(point, margin=hypot(point.margin, quantile * spread))
        points.append(point)
    return points


def agreement(points: Sequence[AvailabilityPoint]) -> str:
    """How many agree with the formula, and of how many the intervals are too wide to tell."""
    found = [point.agrees for point in points]
    untold = f" ({found.count(None)} with intervals too wide to tell, beyond ± {TELLING * 100:g} points)"
    return f"{found.count(True)} of {len(found)}{untold if None in found else ''}"


def pace_points(rows: Iterable[Row]) -> list[Pace]:
    points = []
    for row in rows:
        fields = row.asDict()
        cell = msgspec.convert({name: fields.pop(name) for name in Cell.__struct_fields__}, Cell)
        points.append(msgspec.convert({**fields, "cell": cell}, Pace))
    return points


def time_points(rows: Iterable[Row]) -> list[TimePoint]:
    points = [msgspec.convert(row.asDict(), TimePoint) for row in rows]
    return sorted(points, key=lambda point: (point.figure, point.variant, point.request))


def time_summaries(rows: Iterable[Row]) -> list[TimeSummary]:
    return [msgspec.convert(row.asDict(), TimeSummary) for row in rows]


class Ratio(NamedTuple):
    """A ratio with the bounds of its interval, free of any distribution.

    The variants of a figure take turns, so that windows of requests are pairs: each gives one ratio. Their median is
    reported, with its interval by order statistics; so few windows that they have none leave everything open. A verdict
    is about the whole interval, and open where it straddles a bound.
    """

    value: float
    low: float
    high: float

    @property
    def is_open(self) -> bool:
        """Whether there were too few windows for an interval."""
        return self.high == inf

    def __str__(self) -> str:
        if self.is_open:
            return f"{self.value:.2f} times (too few windows for an interval)"
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
    if 2 * 0.5**count > 1 - CONFIDENCE:  # the least and the most together hold the median less often
        return Ratio(median(ratios), 0.0, inf)
    spread = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) / 2 * sqrt(count)
    low, high = max(floor(count / 2 - spread), 1), min(ceil(count / 2 + spread) + 1, count)
    return Ratio(median(ratios), ratios[low - 1], ratios[high - 1])
