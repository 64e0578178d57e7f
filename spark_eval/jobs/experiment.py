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

from bus.loop import run_fast
from spark_eval.experiment import aggregate
from spark_eval.experiment.live_service import run_live
from spark_eval.experiment.plan import Experiment, Part, dump
from spark_eval.experiment.points import Result, Twins, availability_points, time_points, time_summaries
from spark_eval.experiment.report import make_report
from spark_eval.experiment.response_service import count_requests, run_response_times
from spark_eval.experiment.simulation import simulate, tasks
from spark_eval.progress import Steps
from spark_eval.report import render
from spark_eval.schemas import CELL, LIVE, SIMULATION, TRACE
from spark_eval.session import SparkOptions, ending_in_order, open_session, to_frame
from spark_eval.store import whole_folder

PLAN, TRACES, RESULT, REPORT = "experiment.yaml", "traces", "result.json", "report.html"
"""What an output folder holds."""
ORDER = ("figure", *CELL, "run", "request", "variant")
"""By what traces are sorted, so that equal traces are equal files."""
PARTITIONS = 64


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be run, and where the output goes. `command` is what to type to run it again."""

    plan: Experiment
    parts: frozenset[Part]
    out: Path
    command: str
    spark: SparkOptions


def run(order: Order, steps: Steps) -> Result:
    """Run the experiment. The output folder appears when all is done, or not at all."""
    with ending_in_order(), whole_folder(order.out, PLAN) as folder, ExitStack() as stack:
        # First, so that what is wrong with Java or the master is said before minutes of measuring; then it is idle.
        with steps.step("starting Spark", 1):
            spark = stack.enter_context(open_session(order.spark))
        (folder / PLAN).write_text(dump(order.plan))
        measured = _measure(order, steps)
        simulated = _simulate(order, spark, steps)
        with steps.step("aggregating", 1):
            result = _aggregate(order, to_frame(spark, pa.concat_tables([measured, simulated])).cache())
        _write(folder / TRACES, {LIVE: measured, SIMULATION: simulated})
        (folder / RESULT).write_bytes(msgspec.json.format(msgspec.json.encode(result)))
        (folder / REPORT).write_text(render(make_report(order.plan, order.parts, result, order.command)))
    return result


def _write(folder: Path, traces: Mapping[str, pa.Table]) -> None:
    folder.mkdir()
    for source, trace in traces.items():
        if trace.num_rows:
            ordered = trace.sort_by([(name, "ascending") for name in ORDER]).combine_chunks()
            pq.write_table(ordered, folder / f"{source}.parquet")


def _measure(order: Order, steps: Steps) -> pa.Table:
    """The live parts, before the simulation takes computing time from them."""
    plan, parts = order.plan, [TRACE.empty_table()]
    live = plan.availability
    if Part.AVAILABILITY in order.parts and live.live_cells():
        requests = len(live.live_cells()) * live.live_runs * live.population.requests * 2
        with steps.step("asking failing PDPs", requests) as advance:
            parts.append(run_fast(run_live(live, plan.seed, advance)))
    if Part.RESPONSE_TIME in order.parts:
        with steps.step("measuring response times", count_requests(plan.response_time)) as advance:
            parts.append(run_fast(run_response_times(plan.response_time, plan.seed, advance)))
    return pa.concat_tables(parts)


def _simulate(order: Order, spark: SparkSession, steps: Steps) -> pa.Table:
    if Part.AVAILABILITY not in order.parts:
        return TRACE.empty_table()
    todo = tasks(order.plan.availability, order.plan.seed)
    partitions = min(PARTITIONS, len(todo))
    runs = order.plan.availability.simulated_runs * len(order.plan.availability.cells())
    with steps.watch(spark, f"simulating {runs:,} runs", partitions):
        return simulate(spark, todo, partitions).toArrow().cast(TRACE)


def _aggregate(order: Order, trace: DataFrame) -> Result:
    """The same code for what was measured and what was simulated."""
    plan = order.plan
    runs, timed = trace.where(f.col("figure") == ""), trace.where(f.col("figure") != "")
    result = Result()
    if Part.AVAILABILITY in order.parts:
        cells = len(plan.availability.cells()) + len(plan.availability.live_cells())
        rows = aggregate.availability(runs, cells).collect()
        pairs = aggregate.twins(runs).collect()
        result = msgspec.structs.replace(
            result,
            availability=availability_points(rows, plan.availability.population),
            twins=Twins(len(pairs), sum(pair.alike for pair in pairs), sum(pair.requests for pair in pairs)),
        )
    if Part.RESPONSE_TIME in order.parts:
        result = msgspec.structs.replace(
            result,
            curves=time_points(aggregate.response_times(timed, plan.response_time.windows).collect()),
            response_time=time_summaries(aggregate.response_summary(timed).collect()),
        )
    return result
