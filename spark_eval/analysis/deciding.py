"""Decisions as a column: for frames of requests that others have, and for SQL.

Tasks decide by the engine itself, row by row, with whatever the rows say of attributes and context. For decisions about
everyone and everything there is precompute, which is some thousand times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf

from authz import Entity, InvalidRequest, Reason, Request
from pdp.bundle import Bundle, read_folder
from spark_eval.analysis.seen_diff import engine_of, read_attributes
from spark_eval.errors import EvaluationError

NAMES = ("subject", "object", "action")
ATTRIBUTES = ("subject_attributes", "object_attributes", "action_attributes", "context")
DECIDED = t.StructType(
    [
        t.StructField("effect", t.StringType(), False),
        t.StructField("reason", t.StringType(), False),
        t.StructField("policies", t.ArrayType(t.StringType()), False),
    ]
)
"""What a decision is in a frame."""
_ARROW = pa.struct(
    [
        pa.field("effect", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("policies", pa.list_(pa.string())),
    ]
)


class NoRequests(EvaluationError):
    """A frame that holds no requests: `columns` are those it lacks, or has already."""

    def __init__(self, problem: str, columns: Sequence[str]) -> None:
        listed = ", ".join(f"`{each}`" for each in columns)
        super().__init__(
            f"the frame {problem} {listed}: requests have {', '.join(f'`{each}`' for each in NAMES)}"
        )
        self.columns = tuple(columns)


def decide(frame: DataFrame, policies: Bundle | Path | str) -> DataFrame:
    """The frame with `effect`, `reason` and `policies` of each request in it.

    A request is in the columns `subject`, `object` and `action`, by id, and if there are any in `subject_attributes`,
    `object_attributes`, `action_attributes` and `context`: objects in JSON, structs or maps. The policies are a bundle
    or a folder. Raises NoRequests, BundleRefused or InvalidPolicies.
    """
    if missing := [name for name in NAMES if name not in frame.columns]:
        raise NoRequests("has no", missing)
    if there := [name for name in DECIDED.names if name in frame.columns]:
        raise NoRequests("already has", there)
    more = [_as_json(frame, name) if name in frame.columns else f.lit(None) for name in ATTRIBUTES]
    decided = _function(policies)(*(f.col(name).cast("string") for name in NAMES), *more)
    found = frame.withColumn("_decided", decided)
    return found.select(*frame.columns, *(f.col(f"_decided.{name}") for name in DECIDED.names))


def register_decide(spark: SparkSession, policies: Bundle | Path | str, name: str = "authz_decide") -> None:
    """Make a function of SQL, `authz_decide(subject, object, action)`; its value has `effect`, `reason` and `policies`.

    After the three come, as far as they are given, the attributes of subject, object and action, and the context, as
    JSON. Raises BundleRefused or InvalidPolicies.
    """
    spark.udf.register(name, _function(policies))


def _function(policies: Bundle | Path | str) -> Callable[..., Column]:
    bundle = policies if isinstance(policies, Bundle) else read_folder(Path(policies))
    packed = bundle.pack()
    engine_of(packed)  # what cannot be read is refused here, and not in a task

    def decide_columns(*columns: pa.Array) -> pa.Array:
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        return pa.array([_decide(packed, *row) for row in rows], _ARROW)

    function: Callable[..., Column] = arrow_udf(decide_columns, DECIDED)  # type: ignore[call-overload]
    return function


def _decide(packed: bytes, subject: str, object_: str, action: str, *more: str | None) -> dict[str, object]:
    try:
        attributes = [read_attributes(each) for each in (*more, *[None] * (4 - len(more)))]
        request = Request(
            Entity(subject, attributes[0]),
            Entity(object_, attributes[1]),
            Entity(action, attributes[2]),
            attributes[3],
        )
        request.validate()
    except (InvalidRequest, TypeError, msgspec.DecodeError):
        return {"effect": "deny", "reason": str(Reason.INVALID_REQUEST), "policies": []}
    decision = engine_of(packed).evaluate(request)
    return {
        "effect": decision.effect,
        "reason": str(decision.reason),
        "policies": list(decision.policies),
    }


def _as_json(frame: DataFrame, name: str) -> Column:
    """A column of objects as text."""
    written = isinstance(frame.schema[name].dataType, t.StringType)
    return f.col(name) if written else f.to_json(f.col(name))
