"""What a failure costs, live: who is answered while something is away, and when all is answered again.

Everything is computed from the trace, which has a row for each question or event: how long after the strike it was
asked or published, and whether the answer, or the event, came within the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import floor

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from spark_eval.experiment.cell import Count, Span

FIGURE = "away: "
"""How the figures of these traces begin; what was struck follows."""
ONE_PDP, ALL_PDPS = "one of 2 PDPs", "all PDPs"
ONE_SERVER, ALL_SERVERS = "one of 3 servers", "all servers, and the store"
ONE_BROKER = "one of 2 brokers"
STRUCK = (ONE_PDP, ALL_PDPS, ONE_SERVER, ALL_SERVERS, ONE_BROKER)
ALL_AWAY = (ALL_PDPS, ALL_SERVERS)
"""Nothing can stand in: only what caches know is answered."""
EVENTS_ONE, EVENTS_TWO = "events, by one broker", "events, by either broker"
BIN = 0.5
"""Seconds that make a point of a curve."""


class Recovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often what is struck, and for how long it is away."""

    times: int = 3
    """How often each is struck; 0 leaves it out."""
    pace: Span = 25.0
    """Milliseconds from one question to the next."""
    deadline: Span = 1.0
    """Seconds after which a question has failed."""
    away: Span = 5.0
    """Seconds after which what was killed is started again, where others can stand in …"""
    all_away: Span = 20.0
    """… and where none can: longer than a lease."""
    learned: Count = 1_000
    """Questions that caches have seen answered before."""

    @property
    def expected(self) -> float:
        """About how many seconds it takes in all, with the starts."""
        return self.times * (30.0 + sum(15.0 + self.seconds(struck) for struck in STRUCK))

    def seconds(self, struck: str) -> float:
        """How long it is away."""
        return self.all_away if struck in ALL_AWAY else self.away


class RecoveryPoint(msgspec.Struct, frozen=True):
    """What somebody who asks, or publishes, saw of a failure. Seconds count from the strike, one for each time."""

    struck: str
    asker: str
    away: float
    """Seconds after which it was started again."""
    asked: int
    """Questions, or events, while it was away …"""
    answered: int
    recycled: int
    silences: list[float]
    """The longest time without an answer."""
    failed_last: list[float]
    """When the last question was asked that got none in time; 0 if all did."""
    recycled_last: float | None
    """When the last question was asked that a cache answered, while it was away."""


class RecoveryCurve(msgspec.Struct, frozen=True):
    """Which share of what was asked in these parts of a second was answered."""

    struck: str
    asker: str
    at: list[float]
    answered: list[float]


def recovery_points(trace: pa.Table, plan: Recovery) -> list[RecoveryPoint]:
    """A point for everything struck and everyone who asks."""
    return [
        _point(struck, asker, plan.seconds(struck), rows) for (struck, asker), rows in _grouped(trace).items()
    ]


def recovery_curves(trace: pa.Table) -> list[RecoveryCurve]:
    """Answered shares over time, where nothing can stand in for what is away."""
    return [
        _curve(struck, asker, rows)
        for (struck, asker), rows in _grouped(trace).items()
        if struck in ALL_AWAY and asker not in (EVENTS_ONE, EVENTS_TWO)
    ]


class _Row(msgspec.Struct, frozen=True):
    figure: str
    variant: str
    run: int
    at: float
    failed: int
    recycled: int
    seconds: float | None


def _grouped(trace: pa.Table) -> dict[tuple[str, str], list[_Row]]:
    """The rows of strikes, in the order in which they were asked."""
    mine = trace.filter(pc.starts_with(trace.column("figure"), FIGURE))
    rows = msgspec.convert(mine.select(_Row.__struct_fields__).to_pylist(), list[_Row])
    groups: dict[tuple[str, str], list[_Row]] = {}
    for row in sorted(rows, key=lambda row: (row.run, row.at)):
        groups.setdefault((row.figure.removeprefix(FIGURE), row.variant), []).append(row)
    return dict(sorted(groups.items(), key=lambda item: STRUCK.index(item[0][0])))


def _point(struck: str, asker: str, away: float, rows: Sequence[_Row]) -> RecoveryPoint:
    during = [row for row in rows if 0 <= row.at < away]
    runs = [[row for row in rows if row.run == run] for run in dict.fromkeys(row.run for row in rows)]
    return RecoveryPoint(
        struck,
        asker,
        away,
        len(during),
        sum(not row.failed for row in during),
        sum(row.recycled for row in during),
        [_silence(run) for run in runs],
        [max((row.at for row in run if row.failed and row.at >= 0), default=0.0) for run in runs],
        max((row.at for row in during if row.recycled), default=None),
    )


def _silence(run: Sequence[_Row]) -> float:
    """The longest time from one answer to the next after the strike."""
    times = sorted(row.at + row.seconds for row in run if row.seconds is not None and not row.failed)
    after = [0.0, *(time for time in times if time > 0)]
    return max((later - sooner for sooner, later in pairwise(after)), default=0.0)


def _curve(struck: str, asker: str, rows: Sequence[_Row]) -> RecoveryCurve:
    bins: dict[int, list[bool]] = {}
    for row in rows:
        bins.setdefault(floor(row.at / BIN), []).append(not row.failed)
    places = sorted(bins)
    return RecoveryCurve(
        struck,
        asker,
        [(place + 0.5) * BIN for place in places],
        [sum(bins[p]) / len(bins[p]) for p in places],
    )
