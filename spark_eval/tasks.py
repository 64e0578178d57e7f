"""Python inside Spark's tasks: the one way in which a function is given rows and hands back others."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""What is made of the rows of a task."""


def map_rows(frame: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
    """What the tasks make of the rows of a frame."""
    return frame.mapInArrow(Task(work), from_arrow_schema(schema))


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
