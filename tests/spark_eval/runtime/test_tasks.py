from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_eval.runtime.tasks import collect_rows, map_rows

FOUND = pa.schema(
    [pa.field("process", pa.int64()), pa.field("frozen", pa.int64()), pa.field("id", pa.int64())]
)


@dataclass(frozen=True)
class Look:
    """Each row with the process it came to, and how many objects that process leaves alone."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                row = [[os.getpid()], [gc.get_freeze_count()], [number]]
                yield pa.RecordBatch.from_arrays([pa.array(each) for each in row], schema=FOUND)


def test_all_rows_come_to_tasks_and_back(spark):
    found = map_rows(spark.range(0, 7, 1, 3), Look(), FOUND).toArrow()
    assert sorted(found.column("id").to_pylist()) == list(range(7))


def test_tasks_of_numbers_hand_back_their_rows_in_order(spark):
    found = collect_rows(spark, Look(), 5, FOUND)
    assert found.schema.equals(FOUND)
    assert found.column("id").to_pylist() == list(range(5))


def test_what_a_process_has_imported_is_not_looked_through_after_each_task(spark):
    one = spark.range(0, 1, 1, 1)
    found = [map_rows(one, Look(), FOUND).toArrow().to_pylist()[0] for _ in range(4)]
    again = [each for n, each in enumerate(found) if each["process"] in {e["process"] for e in found[:n]}]
    assert again
    assert all(each["frozen"] > 10_000 for each in again)
