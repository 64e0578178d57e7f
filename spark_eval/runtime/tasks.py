"""Python inside Spark's tasks: the one way in which a function is given rows and hands back others."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""What is made of the rows of a task."""


def map_rows(frame: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
    """What the tasks make of the rows of a frame."""
    return frame.mapInArrow(Task(work), from_arrow_schema(schema))


def collect_rows(spark: SparkSession, work: Work, count: int, schema: pa.Schema) -> pa.Table:
    """What as many tasks make of the numbers from nought on, one each.

    Nothing is planned: Spark's planner would take longer than the tasks of a small job. Over Spark Connect there is no
    other way.
    """
    if not isinstance(spark, SparkSession):
        return map_rows(spark.range(0, count, 1, count), work, schema).toArrow()
    numbers = spark.sparkContext.parallelize(range(count), count)
    streams = numbers.mapPartitions(NumberTask(Task(work), schema)).collect()
    return pa.concat_tables(pa.ipc.open_stream(each).read_all() for each in streams)


@dataclass(frozen=True, slots=True)
class NumberTask:
    """A task that is given plain numbers, and hands back its rows as one stream."""

    task: Task
    schema: pa.Schema

    def __call__(self, numbers: Iterable[int]) -> Iterator[bytes]:
        given = pa.RecordBatch.from_pydict({"id": list(numbers)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as stream:
            for batch in self.task([given]):
                stream.write_batch(batch)
        yield sink.getvalue().to_pybytes()


@dataclass(frozen=True, slots=True)
class Task:
    """A work as Spark's Python processes do it, one time after the other."""

    work: Work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.work(batches)
        _keep_imports()


@cache
def _keep_imports() -> None:
    """Leave alone for good what is there when the first task is done: mostly modules.

    After each task Spark has its process look for garbage: among all that is imported for 50 ms, again and again.
    """
    gc.freeze()
