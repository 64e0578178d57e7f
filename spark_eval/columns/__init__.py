"""Columns of JSON values in Arrow, tables of them, and predicates evaluated over whole columns."""

from spark_eval.columns.column import Codes, Column, Outcomes
from spark_eval.columns.evaluator import Evaluator
from spark_eval.columns.table import (
    ArrowSource,
    Derivation,
    DerivedSource,
    JsonSource,
    Source,
    Table,
    UnreadableColumn,
)

__all__ = [
    "ArrowSource", "Codes", "Column", "Derivation", "DerivedSource", "Evaluator", "JsonSource", "Outcomes",
    "Source", "Table", "UnreadableColumn",
]  # fmt: skip
