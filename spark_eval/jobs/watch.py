"""Watching: the audit stream as it grows, counted by subject and minute, and whoever stands out told at once.

Spark counts in windows of the decisions' own time and keeps the counts; whatever comes late by more than a window is
left out. Only counts that reach a bound come to the driver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from spark_eval.analysis import UNDECIDED
from spark_eval.entities import first_line
from spark_eval.errors import EvaluationError
from spark_eval.stores import NAME, PAGES_IN_BATCH, AuditSource

ROUGHLY = 0.02
"""By which share a count of objects may be wrong: an exact one would keep every name."""
GROWN = 2
"""How many times as large a count must be to be told again."""
WINDOWS_KEPT = 10_000
"""Findings that are remembered: more than any few windows have."""


class WatchFailed(EvaluationError):
    """The stream could not be read on."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the audit stream could not be watched: {problem}")
        self.problem = problem


class Bounds(msgspec.Struct, frozen=True):
    """From which counts on a subject stands out, within a window."""

    seconds: int = 60
    """The length of a window."""
    refused: int = 10
    objects: int = 100
    """Different objects that it asked about."""
    undecided: int = 10
    """Questions that nobody could decide."""


class Anomaly(msgspec.Struct, frozen=True):
    """A subject that stands out, in the window from `start` on."""

    start: datetime
    seconds: int
    kind: str
    """`refused`, `objects` or `undecided`."""
    subject: str
    count: int
    decisions: int


@dataclass(frozen=True, slots=True)
class WatchJob:
    """Which stream, and who stands out."""

    url: str
    domain: str
    bounds: Bounds
    past: bool = False
    """Whether what is in the stream already counts, too."""
    once: bool = False
    """Whether it ends when all that is there has been read."""


def watch_audit(job: WatchJob, spark: SparkSession, tell: Callable[[Anomaly], None]) -> None:
    """Tell of whoever stands out, until ended. Raises WatchFailed."""
    query = _start(job, spark, _Batches(job.bounds, tell))
    try:
        query.awaitTermination()
    except PySparkException as error:
        raise WatchFailed(first_line(error)) from error
    finally:
        if query.isActive:
            query.stop()


def _start(job: WatchJob, spark: SparkSession, batches: _Batches) -> StreamingQuery:
    spark.dataSource.register(AuditSource)
    options = {"url": job.url, "domain": job.domain, "pages": str(PAGES_IN_BATCH)}
    if not (job.past or job.once):
        options["from"] = "now"
    decisions = spark.readStream.format(NAME).options(**options).load()
    writer = outstanding(decisions, job.bounds).writeStream.outputMode("update").foreachBatch(batches)
    return (writer.trigger(availableNow=True) if job.once else writer).start()


def outstanding(decisions: DataFrame, bounds: Bounds) -> DataFrame:
    """The counts of every subject and window that reach a bound."""
    length = f"{bounds.seconds} seconds"
    counted = (
        decisions.where("subject is not null")
        .withWatermark("time", length)
        .groupBy(f.window("time", length).alias("window"), "subject")
        .agg(
            f.count("*").alias("decisions"),
            f.expr("count_if(effect = 'deny')").alias("refused"),
            f.approx_count_distinct("object", ROUGHLY).alias("objects"),
            f.expr(f"count_if({UNDECIDED})").alias("undecided"),
        )
    )
    reached = (f.col(kind) >= getattr(bounds, kind) for kind in _KINDS)
    one, *others = reached
    for other in others:
        one |= other
    return counted.where(one)


_KINDS = ("refused", "objects", "undecided")


@dataclass
class _Batches:
    """Tells of each finding once, and again when it has grown."""

    bounds: Bounds
    tell: Callable[[Anomaly], None]
    told: dict[tuple[datetime, str, str], int] = field(default_factory=dict)

    def __call__(self, frame: DataFrame, _: int) -> None:
        for row in sorted(frame.collect(), key=lambda row: (row.window.start, row.subject)):
            for kind in _KINDS:
                self._take(row, kind)
        for key in sorted(self.told)[:-WINDOWS_KEPT]:
            del self.told[key]

    def _take(self, row: Row, kind: str) -> None:
        count, start = row[kind], row.window.start.astimezone(UTC)
        key = (start, row.subject, kind)
        if count < max(getattr(self.bounds, kind), GROWN * self.told.get(key, 0)):
            return
        self.told[key] = count
        self.tell(Anomaly(start, self.bounds.seconds, kind, row.subject, count, row.decisions))
