"""The report of an experiment: the paper's six figures first, then what lies beyond."""

from __future__ import annotations

from collections.abc import Collection

import pyspark

from spark_eval.experiment import availability_report, response_report
from spark_eval.experiment.availability_report import is_of_paper
from spark_eval.experiment.chain import YEAR_SECONDS, chain_points
from spark_eval.experiment.plan import Experiment, Part
from spark_eval.experiment.points import AvailabilityPoint, Result, TimeSummary
from spark_eval.experiment.variants import SAAM
from spark_eval.reports import Report, Section, Table
from spark_eval.schemas import LIVE, SIMULATION

PAPER = "Qiang Wei, “Authorization Using the Publish-Subscribe Model”"


def make_report(plan: Experiment, parts: Collection[Part], result: Result, command: str) -> Report:
    """Everything the experiment found, in order."""
    sections: list[Section] = []
    availability = plan.availability
    for of_paper in (True, False):
        if Part.AVAILABILITY in parts:
            sections += availability_report.sections(
                availability, result.availability, result.paces, of_paper
            )
        if Part.RESPONSE_TIME in parts:
            sections += response_report.sections(result.curves, result.response_time, of_paper)
    if result.hit_rates:
        sections.append(response_report.hit_rates(result.hit_rates))
    if Part.AVAILABILITY in parts:
        sections += [_chain(plan), _assumptions(plan, result)]
    sections.append(_machine(result))
    lead = _lead(plan, parts, result)
    return Report(_title(plan, parts), lead, command, sections, _facts(parts, result), _notes(plan))


def repeats_paper(plan: Experiment, parts: Collection[Part]) -> bool:
    """Whether anything in the report is an experiment of the paper."""
    sweeps = plan.availability.sweeps.items()
    return Part.RESPONSE_TIME in parts or any(is_of_paper(name, sweep) for name, sweep in sweeps)


def _title(plan: Experiment, parts: Collection[Part]) -> str:
    names = {Part.AVAILABILITY: "Availability", Part.RESPONSE_TIME: "response time"}
    title = " and ".join(names[part] for part in Part if part in parts)
    of = "replicated decision points over publish/subscribe" if repeats_paper(plan, parts) else "an own plan"
    return f"{title[:1].upper()}{title[1:]} of {of}"


def _lead(plan: Experiment, parts: Collection[Part], result: Result) -> str:
    words = []
    if repeats_paper(plan, parts):
        words.append(f"The experiments of {PAPER}, repeated on this fabric.")
    if Part.AVAILABILITY in parts:
        point = _widest(result)
        words.append(
            f"With {point.cell.pdps} PDP{'s' * (point.cell.pdps != 1)} that overlap by"
            f" {point.cell.overlap * 100:.4g} %,"
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


def _chain(plan: Experiment) -> Section:
    """Which nine is reached with how many."""
    chain = plan.chain
    text = (
        f"Computed, not measured. Each PDP and each NATS server fails every {chain.mttf_hours:g} h on average, for"
        f" {chain.mttr_minutes:g} min ({100 * chain.unavailability:.2g} % of the time). A question needs a server that"
        " carries it,"
        " a PDP, and a policy store (a majority of the servers) that was heard within the lease of"
        f" {chain.lease_seconds:g} s; the PEP fails with its service and is not counted. What a cache recycles"
        " needs only"
        " the lease. A share of failures strikes all PDPs, or all servers, at once: more replicas do not help"
        " against it."
    )
    rows: list[list[object]] = [
        [
            point.pdps,
            point.servers,
            f"{point.common * 100:.4g} %",
            f"{100 * (1 - point.unanswered):.{max(point.nines, 2)}f} %",
            point.nines,
            _a_year(point.unanswered),
            _a_year(point.unrecycled),
        ]
        for point in chain_points(chain)
    ]
    columns = ["PDPs", "servers", "in common", "available", "nines", "unanswered a year", "not even recycled"]
    return Section("The whole chain: which nine is reached with how many", [text, Table(columns, rows)])


def _a_year(share: float) -> str:
    """How long a share of a year is."""
    seconds = share * YEAR_SECONDS
    if seconds >= 120:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds:.1f} s" if seconds >= 0.05 else "under 0.1 s"


def _assumptions(plan: Experiment, result: Result) -> Section:
    availability, population = plan.availability, plan.availability.population
    parts = [
        "Times to failure and to repair are exponential, in requests, and each run starts in the stationary state:"
        " a PDP"
        " is down with the same probability at every request. The paper counts 100 requests to a failure, 10 to a"
        " repair,"
        " and does not say from where: the sections count the 100 from the end of a repair, unless they say otherwise.",
        "The first PDP serves every object that is asked for; each other one a random part of exactly the overlap's"
        " size,"
        " unless a section says otherwise. A failing PDP ignores what it is asked. A request has failed if no"
        " answer came"
        f" in {population.deadline:g} s.",
        "Point to point means one TCP connection from the PEP to its own PDP, with nothing in between; the same"
        " requests"
        " at the same time as over NATS.",
    ]
    if result.paces:
        slowest = max(pace.interval for pace in result.paces)
        parts.append(
            f"The paper asks every {availability.pace:g} ms. Live runs are {availability.faster:g} times as fast, one"
            f" request every {availability.interval * 1000:.3g} ms; the slowest cell achieved one every"
            f" {slowest * 1000:.3g} ms. Failures are counted in requests, so that the pace shifts nothing unless"
            " answers"
            " take longer than the deadline."
        )
    return Section("What is assumed", parts)


def _machine(result: Result) -> Section:
    machine = result.machine
    text = (
        f"{machine.processor}, {machine.cores} core{'s' * (machine.cores != 1)}, {machine.memory_gb:g} GB,"
        f" {machine.system}, Python {machine.python}. The load is the number of processes that wanted to compute at a"
        " time, the experiment's own included: far above the number of cores, response times are those of a busy"
        " machine."
    )
    rows = [[step, load.mean, load.most] for step, load in machine.load.items()]
    return Section("The machine, and how busy it was", [text, Table(["step", "load, mean", "at most"], rows)])


def _saam(result: Result) -> TimeSummary:
    return next(summary for summary in result.response_time if summary.variant == SAAM)


def _widest(result: Result) -> AvailabilityPoint:
    """The simulated point to quote: the paper's most PDPs if they are there."""
    simulated = [point for point in result.availability if point.source == SIMULATION]
    plain = [
        point
        for point in simulated
        if point.cell.overlap == 0.1 and point.cell.pdps <= 10 and point.cell.unavailability == 10 / 110
    ]
    return max(
        plain or simulated,
        key=lambda point: (point.cell.pdps, point.cell.cache == "none", point.cell.spaces == "independent"),
    )


def _notes(plan: Experiment) -> str:
    return (
        f"Seed {plan.seed}; the plan is in `experiment.yaml` beside this report, and `--plan` repeats it;"
        f" every observation is in `traces`. Spark {pyspark.__version__}."
        " Simulated results depend on plan and versions alone; response times depend on the machine."
    )
