"""Precomputed decisions one to a row, for whoever wants to join and count them with other data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark_eval.decisions import BUCKET
from spark_eval.precomputed_store import DECIDED, PEOPLE, THINGS
from spark_eval.schemas import ROWS
from spark_eval.tasks import map_rows


def read_rows(spark: SparkSession, folder: Path) -> DataFrame:
    """Subject, object, action and effect, allow or ask, for all that is not denied."""
    names = pq.read_table(folder / PEOPLE, columns=["subject"]).column("subject").combine_chunks()
    permissions = spark.read.parquet(str((folder / THINGS).absolute())).select("object", "action", "class")
    decided = spark.read.parquet(str((folder / DECIDED).absolute())).select(
        "class", "bucket", "allowed", "asking"
    )
    columns = ("object", "action", "bucket", "allowed", "asking")
    return map_rows(permissions.join(decided, "class").select(*columns), RowWork(names), ROWS)


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a task does: a row for each bit that is set."""

    names: pa.StringArray

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                for effect, bitmap in (("allow", row["allowed"]), ("ask", row["asking"])):
                    if bitmap is not None:
                        yield self._rows(row["object"], row["action"], effect, row["bucket"] * BUCKET, bitmap)

    def _rows(self, object_: str, action: str, effect: str, first: int, bitmap: bytes) -> pa.RecordBatch:
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        subjects = self.names.take(pa.array(first + np.flatnonzero(bits)))
        same = [pa.repeat(pa.scalar(each), len(subjects)) for each in (object_, action, effect)]
        return pa.RecordBatch.from_arrays([subjects, *same], schema=ROWS)
