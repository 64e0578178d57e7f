"""The overview's numbers: what was decided, how, and how fast, over the last two minutes."""

from __future__ import annotations

from dataclasses import dataclass

from authfabric.console.decision_log import ASKED, DecisionLog, percentiles, shares

MOST_KINDS = 5
"""Maximum lines in one plot."""
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot."""

    name: str
    style: str
    """The class of its colour."""
    values: list[float]
    said: str = ""
    """What the legend adds to its name."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over the same seconds."""

    title: str
    most: float
    """What the upper edge stands for."""
    scale: str
    """The same in words."""
    lines: list[Series]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Everything that the overview shows in numbers."""

    log: DecisionLog
    rate: float
    recycled: float
    plots: list[Plot]
    unaudited: str


def numbers(log: DecisionLog, now: float, unaudited: str) -> Numbers:
    """What a log amounts to now."""
    seconds = log.rates(now)
    most = max((each.heard for each in seconds), default=0)
    outcomes = [
        Series(name, name, [float(getattr(each, name)) for each in seconds])
        for name in ("allowed", "denied", "failed")
    ]
    recycled = sum(count for how, count in log.how.items() if how != ASKED)
    rate = sum(each.heard for each in seconds[-5:]) / 5
    kinds = [how for how, _ in log.how.most_common(MOST_KINDS + 1) if how != ASKED][:MOST_KINDS]
    hits = [_share(how, number, shares(seconds, how)) for number, how in enumerate(kinds)]
    took = [
        _time(name, number, percentiles(seconds, each))
        for number, (name, each) in enumerate(PERCENTILES.items())
    ]
    slowest = max((value for line in took for value in line.values), default=0.0)
    return Numbers(
        log,
        rate,
        recycled / log.heard if log.heard else 0.0,
        [
            Plot("Decisions", float(most), f"most {most:,} a second", outcomes),
            Plot("Recycled, by kind", 1.0, "up to 100 % of all", hits),
            Plot("Time of PDPs", slowest, f"at most {1000 * slowest:g} ms", took),
        ],
        unaudited,
    )


def _share(how: str, number: int, values: list[float]) -> Series:
    return Series(how, f"line-{number}", values, f"{100 * values[-1]:.0f} %")


def _time(name: str, number: int, values: list[float]) -> Series:
    return Series(name, f"line-{number}", values, f"{1000 * values[-1]:g} ms" if values[-1] else "-")
