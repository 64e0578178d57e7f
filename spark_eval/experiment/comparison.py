"""What changed from one run of an experiment to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import ndiff
from typing import TypeVar

import msgspec

from spark_eval.experiment.cell import Cell
from spark_eval.experiment.machine import Machine
from spark_eval.experiment.plan import Experiment, dump
from spark_eval.experiment.points import Result

T = TypeVar("T")
K = TypeVar("K", bound=tuple[object, ...] | str)
CHANGED = 1.25
"""A ratio of medians from which on a response time has changed: runs on one machine differ by less."""


class PointChange(msgspec.Struct, frozen=True):
    """One point of availability in both runs."""

    source: str
    cell: Cell
    before: float
    margin_before: float
    after: float
    margin_after: float

    @property
    def changed(self) -> bool:
        return abs(self.before - self.after) > self.margin_before + self.margin_after


class TimeChange(msgspec.Struct, frozen=True):
    """One variant's median response time in both runs, in seconds."""

    figure: str
    variant: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before

    @property
    def changed(self) -> bool:
        return not 1 / CHANGED <= self.ratio <= CHANGED


class Comparison(msgspec.Struct, frozen=True):
    """Two runs beside each other. What only one of them has is named."""

    plan: list[str]
    """Lines of the plan that differ: `-` of the first run, `+` of the second."""
    machine: list[str]
    points: list[PointChange]
    times: list[TimeChange]
    only_before: list[str]
    only_after: list[str]

    @property
    def changed_points(self) -> list[PointChange]:
        return [each for each in self.points if each.changed]

    @property
    def changed_times(self) -> list[TimeChange]:
        return [each for each in self.times if each.changed]


def compare_runs(plans: tuple[Experiment, Experiment], results: tuple[Result, Result]) -> Comparison:
    """What changed from the first run to the second."""
    before, after = results
    points = [{(each.source, each.cell): each for each in result.availability} for result in results]
    times = [{(each.figure, each.variant): each for each in result.response_time} for result in results]
    return Comparison(
        plan=_lines(*(dump(plan).splitlines() for plan in plans)),
        machine=_machine(before.machine, after.machine),
        points=[
            PointChange(*key, one.decrease, one.margin, other.decrease, other.margin)
            for key, one, other in _shared(*points)
        ],
        times=[TimeChange(*key, one.median, other.median) for key, one, other in _shared(*times)],
        only_before=[*_only(points[0], points[1]), *_only(times[0], times[1])],
        only_after=[*_only(points[1], points[0]), *_only(times[1], times[0])],
    )


def _lines(before: list[str], after: list[str]) -> list[str]:
    return [line for line in ndiff(before, after) if line.startswith(("- ", "+ "))]


def _machine(before: Machine, after: Machine) -> list[str]:
    one, other = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
    found = [
        f"{name}: {one[name]} and {other[name]}"
        for name in one
        if name != "load" and one[name] != other[name]
    ]
    for step, first, second in _shared(before.load, after.load):
        found.append(f"load while {step}: {first.mean:g} and {second.mean:g}")
    return found


def _shared(before: Mapping[K, T], after: Mapping[K, T]) -> Iterable[tuple[K, T, T]]:
    return [(key, each, after[key]) for key, each in before.items() if key in after]


def _only(some: Mapping[K, T], others: Mapping[K, T]) -> list[str]:
    return [", ".join(map(str, key)) for key in some if key not in others]
