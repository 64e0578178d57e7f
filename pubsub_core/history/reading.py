"""Which events of a type are to be read, and how that is said in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from sqlalchemy import Column, ColumnElement, and_, false, or_, true
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from authz.predicate import TRUE, Predicate
from pubsub_core.history.position import ALWAYS, Position, Span

_Columns: TypeAlias = "ReadOnlyColumnCollection[str, Column[Any]]"


@dataclass(frozen=True, slots=True)
class Reading:
    """Which events of a type are to be read."""

    type: str
    spans: Sequence[Span] = ALWAYS
    filter: Predicate = TRUE
    rows: tuple[int, int | None] = (0, None)
    """After this row, up to and including that one."""


def within(columns: _Columns, reading: Reading) -> Iterator[ColumnElement[bool]]:
    """What holds of rows of these times and numbers."""
    if tuple(reading.spans) != ALWAYS:
        yield or_(false(), *(and_(true(), *_bounds(columns.time, span)) for span in reading.spans))
    first, last = reading.rows
    # Adding nothing keeps databases from looking for rows instead of times.
    if first:
        yield columns.id + 0 > first
    if last is not None:
        yield columns.id + 0 <= last


def _bounds(time: ColumnElement[float], span: Span) -> Iterator[ColumnElement[bool]]:
    if isfinite(span.start):
        yield time >= span.start
    if isfinite(span.end):
        yield time < span.end


def beyond(columns: _Columns, after: Position | None) -> Iterator[ColumnElement[bool]]:
    """What holds of rows that come after a page."""
    if after is not None:
        yield columns.time >= after.time
        yield or_(columns.time > after.time, columns.id > after.row)
