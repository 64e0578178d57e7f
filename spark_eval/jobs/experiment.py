"""Runs an experiment: live, then simulated and aggregated on Spark, then written down as traces and report."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bus.runtime import run_fast
from spark_eval.experiment import (
    Experiment,
    Part,
    Result,
    Twins,
    aggregate,
    availability_points,
    count_requests,
    dump,
    make_report,
    run_live,
    run_response_times,
    simulate,
    tasks,
    time_points,
    time_summaries,
)
from spark_eval.reports import render
from spark_eval.runtime import SparkOptions, Steps, ending_in_order, open_session, to_frame, whole_folder
from spark_eval.schemas import CELL, LIVE, SIMULATION, TRACE

PLAN, TRACES, RESULT, REPORT = "experiment.yaml", "traces", "result.json", "report.html"
"""What an output folder holds."""
ORDER = ("figure", *CELL, "run", "request", "variant")
"""By what traces are sorted, so that equal traces are equal files."""
PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class ExperimentJob:
    """What is to be run, and where the output goes. `command` is what to type to run it again."""

    plan: Experiment
    parts: frozenset[Part]
    out: Path
    command: str
    spark: SparkOptions


def run_experiment(job: ExperimentJob, steps: Steps) -> Result:
    """Run the experiment. The output folder appears when all is done, or not at all."""
    with ending_in_order(), whole_folder(job.out, PLAN) as folder, ExitStack() as stack:
        # First, so that what is wrong with Java or the master is said before minutes of measuring; then it is idle.
        with steps.step("starting Spark", 1):
            spark = stack.enter_context(open_session(job.spark))
        (folder / PLAN).write_text(dump(job.plan))
        measured = _measure(job, steps)
        simulated = _simulate(job, spark, steps)
        with steps.step("aggregating", 1):
            result = _aggregate(job, to_frame(spark, pa.concat_tables([measured, simulated])).cache())
        _write(folder / TRACES, {LIVE: measured, SIMULATION: simulated})
        (folder / RESULT).write_bytes(msgspec.json.format(msgspec.json.encode(result)))
        (folder / REPORT).write_text(render(make_report(job.plan, job.parts, result, job.command)))
    return result


def _write(folder: Path, traces: Mapping[str, pa.Table]) -> None:
    folder.mkdir()
    for source, trace in traces.items():
        if trace.num_rows:
            ordered = trace.sort_by([(name, "ascending") for name in ORDER]).combine_chunks()
            pq.write_table(ordered, folder / f"{source}.parquet")


def _measure(job: ExperimentJob, steps: Steps) -> pa.Table:
    """The live parts, before the simulation takes computing time from them."""
    plan, parts = job.plan, [TRACE.empty_table()]
    live = plan.availability
    if Part.AVAILABILITY in job.parts and live.live_cells():
        requests = len(live.live_cells()) * live.live_runs * live.population.requests * 2
        with steps.step("asking failing PDPs", requests) as advance:
            parts.append(run_fast(run_live(live, plan.seed, advance)))
    if Part.RESPONSE_TIME in job.parts:
        with steps.step("measuring response times", count_requests(plan.response_time)) as advance:
            parts.append(run_fast(run_response_times(plan.response_time, plan.seed, advance)))
    return pa.concat_tables(parts)


def _simulate(job: ExperimentJob, spark: SparkSession, steps: Steps) -> pa.Table:
    if Part.AVAILABILITY not in job.parts:
        return TRACE.empty_table()
    todo = tasks(job.plan.availability, job.plan.seed)
    partitions = min(PARTITIONS, len(todo))
    runs = job.plan.availability.simulated_runs * len(job.plan.availability.cells())
    with steps.watch(spark, f"simulating {runs:,} runs", partitions):
        return simulate(spark, todo, partitions).toArrow().cast(TRACE)


def _aggregate(job: ExperimentJob, trace: DataFrame) -> Result:
    """The same code for what was measured and what was simulated."""
    plan = job.plan
    runs, timed = trace.where(f.col("figure") == ""), trace.where(f.col("figure") != "")
    result = Result()
    if Part.AVAILABILITY in job.parts:
        cells = len(plan.availability.cells()) + len(plan.availability.live_cells())
        rows = aggregate.availability(runs, cells).collect()
        pairs = aggregate.twins(runs).collect()
        result = msgspec.structs.replace(
            result,
            availability=availability_points(rows, plan.availability.population),
            twins=Twins(len(pairs), sum(pair.alike for pair in pairs), sum(pair.requests for pair in pairs)),
        )
    if Part.RESPONSE_TIME in job.parts:
        result = msgspec.structs.replace(
            result,
            curves=time_points(aggregate.response_times(timed, plan.response_time.windows).collect()),
            response_time=time_summaries(aggregate.response_summary(timed).collect()),
        )
    return result
