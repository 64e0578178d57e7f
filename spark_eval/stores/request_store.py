"""Requests that were asked, where Spark finds them: Parquet or lines of JSON, with the columns of `REQUESTS`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.entities import SPARK_ERRORS, count_of, first_line
from spark_eval.errors import EvaluationError
from spark_eval.runtime import absolute
from spark_eval.schemas import REQUESTS

NEEDED = tuple(field.name for field in REQUESTS if not field.nullable)
OBJECTS = ("subject_attributes", "object_attributes", "action_attributes", "context")
ASKED = (*NEEDED, *OBJECTS)
"""What makes two requests the same."""


class InvalidRequests(EvaluationError):
    """Requests that cannot be used: where they are from, how many rows were read, and what would be right."""

    def __init__(self, source: str, rows: int, problem: str) -> None:
        super().__init__(f"`{source}`: {problem} ({count_of(rows, 'row')} read)")
        self.source = source
        self.rows = rows
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests as a DataFrame."""

    source: str
    frame: DataFrame
    count: int

    @classmethod
    def open(cls, spark: SparkSession, source: str) -> Requests:
        """The requests in a file, a folder or a table. Raises InvalidRequests."""
        try:
            frame = _read(spark, source)
            if "record" in frame.columns:  # it is an audit, and not every record is a decision
                frame = frame.where("subject is not null")
            missing = [name for name in NEEDED if name not in frame.columns]
            if missing:
                columns = ", ".join(f"`{name}`" for name in missing)
                raise InvalidRequests(source, frame.count(), f"there is no column {columns}")
            present = frame.select(*_columns(frame))
            return cls(source, present, _check_rows(source, present))
        except SPARK_ERRORS as error:
            raise InvalidRequests(source, 0, first_line(error)) from error

    def distinct(self) -> DataFrame:
        """Each different request once, and how often it was asked."""
        return self.frame.groupBy(*ASKED).count()

    def allowed(self) -> pa.Table:
        """Subject, object and action of what was allowed, each once, and how often."""
        used = self.frame.where("effect is null or effect = 'allow'")
        return used.groupBy("subject", "object", "action").count().toArrow()


def open_decisions(spark: SparkSession, source: str) -> DataFrame:
    """The decisions that `spark audit` wrote: who asked for what, how and by which policies that was decided.

    Raises InvalidRequests.
    """
    try:
        frame = _read(spark, source)
    except SPARK_ERRORS as error:
        raise InvalidRequests(source, 0, first_line(error)) from error
    wanted = (*NEEDED, "time", "effect", "reason", "policies")
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        columns = ", ".join(f"`{name}`" for name in missing)
        problem = f"there is no column {columns}: give the folder `decisions` that `spark audit` wrote"
        raise InvalidRequests(source, 0, problem)
    return frame.where("subject is not null").select(*wanted)


def _columns(frame: DataFrame) -> list[Column]:
    """All columns of requests; those that are not there, as null."""
    return [
        f.col(field.name)
        if field.name in frame.columns
        else f.lit(None).cast(kind.dataType).alias(field.name)
        for field, kind in zip(REQUESTS, from_arrow_schema(REQUESTS).fields, strict=True)
    ]


def _read(spark: SparkSession, source: str) -> DataFrame:
    path = Path(source)
    if "://" not in source and not path.exists():
        if spark.catalog.tableExists(source):
            return spark.table(source)
        raise InvalidRequests(source, 0, "there is no such file or table")
    names = [path.name, *(each.name for each in sorted(path.rglob("*.*")) if path.is_dir())]
    if any(name.endswith(".parquet") for name in names):
        return spark.read.parquet(absolute(source))
    return spark.read.schema(from_arrow_schema(REQUESTS)).json(absolute(source))


def _check_rows(source: str, frame: DataFrame) -> int:
    """How many requests there are. Raises InvalidRequests if there are none, or some cannot be read."""
    bad = " or ".join(f"{name} is null" for name in NEEDED)
    bad += "".join(f" or ({name} is not null and json_object_keys({name}) is null)" for name in OBJECTS)
    counted = frame.selectExpr("count(*) as n", f"count_if({bad}) as bad").first()
    assert counted is not None
    if not counted["n"]:
        raise InvalidRequests(source, 0, "there is no request in it")
    if counted["bad"]:
        whose = f"{count_of(counted['bad'], 'request')} without {' or '.join(NEEDED)}"
        raise InvalidRequests(source, counted["n"], f"{whose}, or with attributes that are no JSON object")
    return int(counted["n"])
