"""The availability experiment simulated on Spark: blocks of runs as tasks, whole blocks as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.outcome import Outcome, point_to_point, publish_subscribe
from spark_eval.experiment.plan import Availability
from spark_eval.experiment.sampling import Sample, draw_sample
from spark_eval.runtime import map_rows, to_frame
from spark_eval.schemas import P2P, PUBSUB, SIMULATION, TRACE


class Task(msgspec.Struct, frozen=True, gc=False):
    """One block of runs of one cell: everything that decides its result."""

    cell: Cell
    population: Population
    seed: int
    block: int
    first_run: int
    runs: int


def tasks(plan: Availability, seed: int) -> list[Task]:
    """The work of a plan, the heaviest first, so that no worker is left with it alone at the end."""
    todo = [
        Task(cell, plan.population, seed, block, first, min(plan.block, plan.simulated_runs - first))
        for cell in plan.cells()
        for block, first in enumerate(range(0, plan.simulated_runs, plan.block))
    ]
    return sorted(todo, key=lambda task: -task.cell.pdps)


def simulate(spark: SparkSession, todo: Sequence[Task], partitions: int) -> DataFrame:
    """The trace of the tasks: two rows for each run, by whatever partitioning the same."""
    encoded = pa.table({"task": [msgspec.msgpack.encode(task) for task in todo]})
    frame = to_frame(spark, encoded).repartition(partitions)
    return map_rows(frame, _simulate_batches, TRACE)


def simulate_task(task: Task) -> pa.Table:
    """The rows of one task."""
    sample = draw_task(task)
    own = point_to_point(sample, task.population)
    fabric = publish_subscribe(sample, task.cell, task.population)
    return pa.concat_tables([_rows(task, P2P, own), _rows(task, PUBSUB, fabric)])


def draw_task(task: Task) -> Sample:
    """The sample in which the task's runs take place."""
    return draw_sample(task.cell, task.population, task.seed, task.block, task.runs)


def cell_columns(cell: Cell, count: int) -> dict[str, pa.Array]:
    """The columns that say which cell `count` rows belong to."""
    values = msgspec.structs.asdict(cell)
    return {
        name: pa.repeat(pa.scalar(value, TRACE.field(name).type), count) for name, value in values.items()
    }


def _simulate_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    decode = msgspec.msgpack.Decoder(Task).decode
    for batch in batches:
        for encoded in batch.column("task"):
            yield from simulate_task(decode(encoded.as_py())).to_batches()


def _rows(task: Task, variant: str, outcome: Outcome) -> pa.Table:
    runs = task.runs
    zeros = np.zeros(runs, np.int32)
    columns = {
        "source": pa.repeat(SIMULATION, runs),
        "figure": pa.repeat("", runs),
        "variant": pa.repeat(variant, runs),
        **cell_columns(task.cell, runs),
        "run": pa.array(np.arange(task.first_run, task.first_run + runs, dtype=np.int32)),
        "batch": pa.array(zeros),
        "request": pa.array(zeros),
        "requests": pa.array(zeros + task.population.requests),
        "failed": pa.array((~outcome.answered).sum(axis=1, dtype=np.int32)),
        "recycled": pa.array(outcome.recycled.sum(axis=1, dtype=np.int32)),
        "asked": pa.array(outcome.asked.sum(axis=1)),
        "at": pa.nulls(runs, pa.float64()),
        "seconds": pa.nulls(runs, pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
