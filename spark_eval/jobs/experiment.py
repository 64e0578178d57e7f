"""Runs an experiment: live, then simulated and aggregated on Spark, then written down as traces and report."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from authz import AuthFabricError
from spark_eval.experiment import (
    Comparison,
    Experiment,
    Load,
    Part,
    Result,
    Twins,
    aggregate,
    availability_points,
    compare_runs,
    describe_machine,
    dump,
    load,
    make_report,
    pace_points,
    recovery_curves,
    recovery_points,
    simulate,
    tasks,
    time_points,
    time_summaries,
    variants,
    watching_load,
)
from spark_eval.measurement import (
    Measurement,
    Shipped,
    Whole,
    WrongAnswer,
    count_hits,
    count_requests,
    count_strikes,
    live_measurements,
    recovery_measurements,
    remote_hosts,
    response_measurements,
)
from spark_eval.reports import render
from spark_eval.runtime import (
    Advance,
    SparkOptions,
    Steps,
    Unreadable,
    ending_in_order,
    open_session,
    read_text,
    run_interruptible,
    to_frame,
    whole_folder,
)
from spark_eval.schemas import CELL, LIVE, SIMULATION, TRACE

PLAN, TRACES, RESULT, REPORT = "experiment.yaml", "traces", "result.json", "report.html"
"""What an output folder holds."""
UNFINISHED = "-unfinished"
"""What is added to the folder's name where an experiment was ended before its end."""
ORDER = ("figure", *CELL, "run", "request", "variant")
"""By what traces are sorted, so that equal traces are equal files."""
TIMES = ("at", "seconds")
TICKS = 2.0**23
"""A second has so many: the times of a trace are kept to an eighth of a microsecond, and take a third of the room."""
PARTITIONS = 64
ASKING, TIMING, SIMULATING = "asking failing PDPs", "measuring response times", "simulating"
STRIKING = "striking the whole fabric"
LEARNING = "counting what caches answer"


@dataclass(frozen=True, slots=True)
class ExperimentJob:
    """What is to be run, and where the output goes. `command` is what to type to run it again."""

    plan: Experiment
    parts: frozenset[Part]
    out: Path
    command: str
    spark: SparkOptions
    shipped: Shipped
    """How a fabric as it is shipped is started."""
    whole: Whole
    """How one is started that is struck."""


@dataclass(slots=True)
class _Measured:
    """What was measured so far, how busy the machine was, and what failed, with the problem."""

    parts: list[pa.Table] = field(default_factory=list)
    loads: dict[str, Load] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def trace(self) -> pa.Table:
        return pa.concat_tables([TRACE.empty_table(), *self.parts])


def run_experiment(job: ExperimentJob, steps: Steps) -> Result:
    """Run the experiment. The output folder appears when all is done; what was measured before an end is kept aside.

    What fails twice is left out, and the report says so.
    """
    with ending_in_order(), whole_folder(job.out, PLAN) as folder, ExitStack() as stack:
        # First, so that what is wrong with Java or the master is said before minutes of measuring; then it is idle.
        steps.expect(_expected(job))
        with steps.step("starting Spark", 1):
            spark = stack.enter_context(open_session(job.spark))
        measured = _Measured()
        with _kept_if_ended(job, measured, steps):
            _measure(job, steps, measured)
            simulated = _simulate(job, spark, steps, measured)
            with steps.step("aggregating", 1):
                trace = to_frame(spark, pa.concat_tables([measured.trace, simulated])).cache()
                result = _aggregate(job, trace)
            if Part.RESPONSE_TIME in job.parts:
                with steps.step(LEARNING, 1):
                    rates = count_hits(job.plan.response_time.hospital, job.plan.seed)
                    result = msgspec.structs.replace(result, hit_rates=rates)
            if _strikes(job):
                result = msgspec.structs.replace(
                    result,
                    recovery=recovery_points(measured.trace, job.plan.recovery),
                    recovery_curves=recovery_curves(measured.trace),
                )
        machine = msgspec.structs.replace(describe_machine(), load=measured.loads)
        result = msgspec.structs.replace(result, machine=machine, failures=measured.failures)
        (folder / PLAN).write_text(dump(job.plan))
        _write(folder / TRACES, {LIVE: measured.trace, SIMULATION: simulated})
        (folder / RESULT).write_bytes(msgspec.json.format(msgspec.json.encode(result)))
        (folder / REPORT).write_text(render(make_report(job.plan, job.parts, result, job.command)))
    return result


def compare_experiments(before: Path, after: Path) -> Comparison:
    """What changed from the run in one folder to that in another. Raises Unreadable or InvalidExperiment."""
    plans = (load(before / PLAN), load(after / PLAN))
    return compare_runs(plans, (_read_result(before / RESULT), _read_result(after / RESULT)))


def _read_result(path: Path) -> Result:
    try:
        return msgspec.json.decode(read_text(path), type=Result)
    except msgspec.DecodeError as error:
        raise Unreadable(path, f"it is no result of an experiment: {error}") from None


def _expected(job: ExperimentJob) -> list[float]:
    """About how many seconds each step takes, on two cores."""
    plan, seconds = job.plan, [8.0]
    live = plan.availability
    if Part.AVAILABILITY in job.parts and live.live_requests:
        cells = sum(len(live.live_cells(run)) for run in range(live.rounds))
        asking = live.live_requests / 2 * live.interval + cells * live.population.deadline
        seconds.append(asking + 20.0 * live.rounds + 60.0)
    if Part.RESPONSE_TIME in job.parts:
        seconds.append(count_requests(plan.response_time, plan.hosts) * 0.0006 + 60.0)
    if _strikes(job):
        seconds.append(plan.recovery.expected)
    if Part.AVAILABILITY in job.parts:
        weight = sum(cell.pdps for cell in live.cells()) * live.population.requests
        seconds.append(10.0 + weight * live.simulated_runs * 1e-8)
    seconds.append(10.0)
    if Part.RESPONSE_TIME in job.parts:
        seconds.append(plan.response_time.hospital * 0.1)
    return seconds


@contextmanager
def _kept_if_ended(job: ExperimentJob, measured: _Measured, steps: Steps) -> Iterator[None]:
    """Keep what was measured, if anything was, when the block does not end well."""
    try:
        yield
    except BaseException:
        if measured.parts:
            aside = job.out.with_name(job.out.name + UNFINISHED)
            if (aside / PLAN).is_file():
                shutil.rmtree(aside)
            aside.mkdir(parents=True, exist_ok=True)
            (aside / PLAN).write_text(dump(job.plan))
            _write(aside / TRACES, {LIVE: measured.trace})
            steps.say(f"not finished; what was measured is in {aside}")
        raise


def _write(folder: Path, traces: Mapping[str, pa.Table]) -> None:
    folder.mkdir()
    for source, trace in traces.items():
        if trace.num_rows:
            ordered = trace.sort_by([(name, "ascending") for name in ORDER]).combine_chunks()
            pq.write_table(
                ordered,
                folder / f"{source}.parquet",
                compression="zstd",
                compression_level=19,
                use_dictionary=[name for name in TRACE.names if name not in TIMES],
                column_encoding=dict.fromkeys(TIMES, "BYTE_STREAM_SPLIT"),
            )


def _in_ticks(trace: pa.Table) -> pa.Table:
    """The same with times as exact as they are kept."""
    for name in TIMES:
        ticks = pc.round(pc.multiply(trace.column(name), TICKS))
        trace = trace.set_column(trace.column_names.index(name), TRACE.field(name), pc.divide(ticks, TICKS))
    return trace


def _measure(job: ExperimentJob, steps: Steps, measured: _Measured) -> None:
    """The live parts, before the simulation takes computing time from them.

    What fails is tried once more, and then left out; the first problem is raised if nothing at all could be measured.
    """
    plan, live = job.plan, job.plan.availability
    problems: list[Exception] = []

    def take(words: str, total: int, measurements: Iterable[Measurement]) -> None:
        with steps.step(words, total) as advance, watching_load(words, measured.loads):
            for each in measurements:
                problem = _attempt(each, advance, steps, measured)
                if problem is not None:
                    problems.append(problem)
                    measured.failures[each.name] = _told(problem)

    if Part.AVAILABILITY in job.parts and live.live_requests:
        take(ASKING, live.live_requests, live_measurements(live, plan.seed, remote_hosts(plan.hosts)))
    if Part.RESPONSE_TIME in job.parts:
        requests = count_requests(plan.response_time, plan.hosts)
        take(TIMING, requests, response_measurements(plan, job.shipped))
    if _strikes(job):
        strikes = recovery_measurements(plan.recovery, plan.seed, job.whole)
        take(STRIKING, count_strikes(plan.recovery), strikes)
    if problems and not measured.parts:
        raise problems[0]


@dataclass(slots=True)
class _Counted:
    """Tells how much is done, and counts it."""

    advance: Advance
    done: int = 0

    def __call__(self, count: int) -> None:
        self.done += count
        self.advance(count)


def _attempt(
    measurement: Measurement, advance: Advance, steps: Steps, measured: _Measured
) -> Exception | None:
    """Keep the trace; or give the problem, if there was one twice."""
    problem: Exception | None = None
    for rest in ("once more", "it is left out"):
        counted = _Counted(advance)
        try:
            measured.parts.append(_in_ticks(run_interruptible(measurement.watched(counted))))
        except WrongAnswer:
            raise
        except Exception as error:
            advance(-counted.done)
            steps.say(f"{measurement.name} failed: {_told(error)}; {rest}")
            problem = error
        else:
            return None
    return problem


def _told(error: BaseException) -> str:
    """The problem in a line: of several that came together, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, AuthFabricError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def _strikes(job: ExperimentJob) -> bool:
    return Part.RECOVERY in job.parts and job.plan.recovery.times > 0


def _simulate(job: ExperimentJob, spark: SparkSession, steps: Steps, measured: _Measured) -> pa.Table:
    if Part.AVAILABILITY not in job.parts:
        return TRACE.empty_table()
    todo = tasks(job.plan.availability, job.plan.seed)
    partitions = min(PARTITIONS, len(todo))
    runs = job.plan.availability.simulated_runs * len(job.plan.availability.cells())
    with (
        steps.watch(spark, f"{SIMULATING} {runs:,} runs", partitions),
        watching_load(SIMULATING, measured.loads),
    ):
        return simulate(spark, todo, partitions).toArrow().cast(TRACE)


def _aggregate(job: ExperimentJob, trace: DataFrame) -> Result:
    """The same code for what was measured and what was simulated."""
    plan = job.plan
    runs, timed = trace.where(f.col("figure") == ""), trace.where(f.col("figure").isin(*variants.FIGURES))
    result = Result()
    if Part.AVAILABILITY in job.parts:
        cells = len(plan.availability.cells()) + len(plan.availability.live_cells())
        rows = aggregate.availability(runs, cells).collect()
        pairs = aggregate.twins(runs).collect()
        result = msgspec.structs.replace(
            result,
            availability=availability_points(rows, plan.availability.population),
            twins=Twins(len(pairs), sum(pair.alike for pair in pairs), sum(pair.requests for pair in pairs)),
            paces=pace_points(aggregate.paces(runs).collect()),
        )
    if Part.RESPONSE_TIME in job.parts:
        result = msgspec.structs.replace(
            result,
            curves=time_points(aggregate.response_times(timed, plan.response_time.windows).collect()),
            response_time=time_summaries(aggregate.response_summary(timed).collect()),
        )
    return result
