"""The report of an experiment: the paper's six figures first, then what lies beyond."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median

import pyspark

from sdp_cache import LeaseRules
from spark_eval.experiment.chain import YEAR_SECONDS, chain_points
from spark_eval.experiment.plan import Experiment, Part
from spark_eval.experiment.points import AvailabilityPoint, Result, TimeSummary
from spark_eval.experiment.recovery import ALL_PDPS, ALL_SERVERS, RecoveryPoint
from spark_eval.experiment.report import availability_report, response_report
from spark_eval.experiment.report.availability_report import is_of_paper
from spark_eval.experiment.variants import CERTIFICATES, SAAM
from spark_eval.reports import Chart, Claim, Plot, Report, Section, Series, Table, draw
from spark_eval.reports import Part as ReportPart
from spark_eval.schemas import LIVE, SIMULATION

CACHE_LEASE = LeaseRules().seconds
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
    if Part.RECOVERY in parts and result.recovery:
        sections.append(_recovery(plan, result))
    if result.failures:
        sections.append(_failures(result))
    if Part.AVAILABILITY in parts:
        sections += [_chain(plan), _assumptions(plan, result)]
    sections.append(_machine(result))
    lead = _lead(plan, parts, result)
    return Report(_title(plan, parts), lead, command, sections, _facts(parts, result), _notes(plan))


def repeats_paper(plan: Experiment, parts: Collection[Part]) -> bool:
    """Whether anything in the report is an experiment of the paper."""
    sweeps = plan.availability.sweeps.items() if Part.AVAILABILITY in parts else ()
    return Part.RESPONSE_TIME in parts or any(is_of_paper(name, sweep) for name, sweep in sweeps)


def _title(plan: Experiment, parts: Collection[Part]) -> str:
    *first, last = [part.replace("-", " ") for part in Part if part in parts]
    title = f"{', '.join(first)} and {last}" if first else last
    paper = repeats_paper(plan, parts) or parts == {Part.RECOVERY}
    of = "replicated decision points over publish/subscribe" if paper else "an own plan"
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
            f" {point.decrease * 100:.3g} % fewer requests fail than point to point, simulated; the formula says"
            f" {point.expected * 100:.3g} %."
        )
    if Part.RESPONSE_TIME in parts:
        words += [
            f"SAAM-RBAC infers {inferred.recycled * 100:.0f} % of the answers, and nobody is asked for them."
            for inferred in _saam(result)
        ]
    away = next((p for p in result.recovery if (p.struck, p.asker) == (ALL_PDPS, CERTIFICATES)), None)
    if away is not None:
        words.append(
            f"With all PDPs away, a cache with certificates answers"
            f" {100 * away.answered / max(away.asked, 1):.0f} % of what it is asked."
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
            agreeing = [point.agrees for point in points]
            untold = agreeing.count(None)
            wide = f"; of {untold} the intervals are too wide to tell" if untold else ""
            facts.append((name + wide, f"{agreeing.count(True)} of {len(points)}"))
    if result.twins.runs:
        alike = f"{result.twins.alike} of {result.twins.runs}"
        facts.append(("live runs failed as often as their simulated twins", alike))
    if Part.RESPONSE_TIME in parts:
        facts += [
            ("mean response time with SAAM-RBAC", f"{inferred.mean * 1e6:,.0f} µs")
            for inferred in _saam(result)
        ]
    if result.failures:
        facts.append(("could not be measured", len(result.failures)))
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
        " the lease. For events read brokers in place of PDPs: clients that know several go on at another."
        " A share of failures strikes all PDPs, or all servers, at once: more replicas do not help"
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


def _recovery(plan: Experiment, result: Result) -> Section:
    """Who is answered while something is away, and when all is as before."""
    recovery = plan.recovery
    text = (
        "The whole fabric as people run it: three secured NATS servers with the store, two PDPs, one more for events,"
        f" and two brokers, each a process of its own. Everybody asks, or publishes, every {recovery.pace:g} ms,"
        f" whether earlier questions are answered or not; what has no answer within {recovery.deadline:g} s has failed."
        f" Processes are killed (SIGKILL), and started again after {recovery.away:g} s, or {recovery.all_away:g} s"
        f" where nothing can stand in for them; each {recovery.times} time{'s' * (recovery.times != 1)}. Caches have"
        f" seen {recovery.learned:,} questions answered before, of 3,000 possible. While PDPs are away they answer what"
        " they know for as long as the store is heard, and without the store for as long as the lease lasts. Events"
        " need a PDP where a session begins, and none while it lasts."
    )
    parts: list[ReportPart] = [text]
    for struck in dict.fromkeys(curve.struck for curve in result.recovery_curves):
        curves = [curve for curve in result.recovery_curves if curve.struck == struck]
        series = [Series(curve.asker, curve.at, curve.answered) for curve in curves]
        chart = Chart("seconds from the strike", "answered in time", series, percent=True, top=1.05)
        away = f"{struck[:1].upper()}{struck[1:]}: away for {recovery.seconds(struck):g} s."
        parts.append(Plot(draw(chart), f"{away} Share of the questions asked in each half second."))
    parts += _lease_claim(result)
    columns = ["who asks", "answered", "by the cache", "longest silence", "last failed", "after the start"]
    for struck in dict.fromkeys(point.struck for point in result.recovery):
        rows = [_recovery_row(point) for point in result.recovery if point.struck == struck]
        parts.append(Table(columns, rows, f"Killed: {struck}"))
    parts.append(
        "Answered is the share of what was asked while it was away. The longest silence is the longest time from one"
        " answer to the next after the strike; last failed is when the last question without an answer in time was"
        " asked, from the strike, and from the moment at which it was started again, which takes a while itself."
    )
    return Section("Who is answered while something is away, and until all is as before", parts)


def _recovery_row(point: RecoveryPoint) -> list[object]:
    late = [max(0.0, last - point.away) for last in point.failed_last]
    return [
        point.asker,
        f"{100 * point.answered / max(point.asked, 1):.1f} %",
        f"{100 * point.recycled / max(point.asked, 1):.1f} %",
        _seconds(point.silences),
        _seconds(point.failed_last) if any(point.failed_last) else "none",
        _seconds(late) if any(late) else None,
    ]


def _lease_claim(result: Result) -> list[Claim]:
    """Whether caches answered beyond their lease when the store was gone."""
    points = [point for point in result.recovery if point.struck == ALL_SERVERS]
    last = max((point.recycled_last for point in points if point.recycled_last is not None), default=None)
    if last is None or all(point.away <= CACHE_LEASE for point in points):
        return []
    return [
        Claim(
            f"What a cache knows is answered for at most {CACHE_LEASE:g} s after the store was last heard.",
            f"The last answer of a cache was to a question asked {last:.1f} s after all servers were killed.",
            last <= CACHE_LEASE,
            by="Our documentation (caching)",
            verdict="" if last <= CACHE_LEASE else "longer",
            criterion=f"no question asked later than {CACHE_LEASE:g} s after the strike was answered by a cache before"
            " the servers were started again",
        )
    ]


def _seconds(values: Sequence[float]) -> str:
    """One of several: the median, and the least and the most if they differ."""
    low, high = min(values), max(values)
    middle = f"{median(values):.1f} s"
    return middle if f"{low:.1f}" == f"{high:.1f}" else f"{middle} ({low:.1f} to {high:.1f})"


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
    if plan.hosts is not None:
        names = ", ".join(host.ssh for host in plan.hosts.remote)
        parts.append(f"PDPs of live runs ran on other machines, in turn: {names}.")
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


def _failures(result: Result) -> Section:
    text = "These failed twice and were left out; everything else in this report is whole."
    rows = [[name, problem] for name, problem in result.failures.items()]
    return Section("What could not be measured", [text, Table(["measurement", "problem"], rows)])


def _saam(result: Result) -> list[TimeSummary]:
    """Of the response times with SAAM-RBAC, if they were measured."""
    return [summary for summary in result.response_time if summary.variant == SAAM]


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
