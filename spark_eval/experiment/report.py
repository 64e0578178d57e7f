"""The report of an experiment: the paper's six figures first, then what lies beyond."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection

import pyspark

from spark_eval.experiment import availability_report, response_report
from spark_eval.experiment.plan import Experiment, Part
from spark_eval.experiment.points import AvailabilityPoint, Result, TimeSummary
from spark_eval.experiment.response_service import SAAM
from spark_eval.reports import Report, Section
from spark_eval.schemas import LIVE, SIMULATION

PAPER = "Qiang Wei, “Authorization Using the Publish-Subscribe Model”"


def make_report(plan: Experiment, parts: Collection[Part], result: Result, command: str) -> Report:
    """Everything the experiment found, in order."""
    sections: list[Section] = []
    availability = plan.availability
    if Part.AVAILABILITY in parts:
        sections += availability_report.sections(availability, result.availability, of_paper=True)
    if Part.RESPONSE_TIME in parts:
        sections += response_report.sections(result.curves, result.response_time)
    if Part.AVAILABILITY in parts:
        sections += availability_report.sections(availability, result.availability, of_paper=False)
    return Report(_title(parts), _lead(parts, result), command, sections, _facts(parts, result), _notes(plan))


def _title(parts: Collection[Part]) -> str:
    names = {Part.AVAILABILITY: "Availability", Part.RESPONSE_TIME: "response time"}
    title = " and ".join(names[part] for part in Part if part in parts)
    return f"{title[:1].upper()}{title[1:]} of replicated decision points over publish/subscribe"


def _lead(parts: Collection[Part], result: Result) -> str:
    words = [f"The experiments of {PAPER}, repeated on this fabric."]
    if Part.AVAILABILITY in parts:
        point = _widest(result)
        words.append(
            f"With {point.cell.pdps} PDPs that overlap by {point.cell.overlap * 100:.4g} %,"
            f" {point.decrease * 100:.3g} % fewer requests fail than point to point; the formula says"
            f" {point.expected * 100:.3g} %."
        )
    if Part.RESPONSE_TIME in parts:
        inferred = _saam(result)
        words.append(
            f"SAAM-RBAC infers {inferred.recycled * 100:.0f} % of the answers, and nobody is asked for them."
        )
    return " ".join(words)


def _facts(parts: Collection[Part], result: Result) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = []
    for source, name in (
        (SIMULATION, "simulated points agree with the formula"),
        (LIVE, "live points do, too"),
    ):
        points = [point for point in result.availability if point.source == source]
        if points:
            facts.append((name, f"{sum(point.agrees for point in points)} of {len(points)}"))
    if result.twins.runs:
        alike = f"{result.twins.alike} of {result.twins.runs}"
        facts.append(("live runs failed as often as their simulated twins", alike))
    if Part.RESPONSE_TIME in parts:
        inferred = _saam(result)
        facts.append(("mean response time with SAAM-RBAC", f"{inferred.mean * 1e6:,.0f} µs"))
    return facts


def _saam(result: Result) -> TimeSummary:
    return next(summary for summary in result.response_time if summary.variant == SAAM)


def _widest(result: Result) -> AvailabilityPoint:
    """The simulated point to quote: the paper's most PDPs if they are there."""
    simulated = [point for point in result.availability if point.source == SIMULATION]
    plain = [point for point in simulated if point.cell.overlap == 0.1 and point.cell.pdps <= 10]
    return max(plain or simulated, key=lambda point: (point.cell.pdps, point.cell.cache == "none"))


def _notes(plan: Experiment) -> str:
    return (
        f"Seed {plan.seed}; the plan is in `experiment.yaml` beside this report, and `--plan` repeats it;"
        " every observation is in `traces`."
        f" Python {platform.python_version()}, Spark {pyspark.__version__}, {os.cpu_count()} cores."
        " Simulated results depend on plan and versions alone; response times depend on the machine."
    )
