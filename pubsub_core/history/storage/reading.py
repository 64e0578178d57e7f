"""Which events of a type are to be read, and how that is said in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from sqlalchemy import Column, ColumnElement, Select, and_, false, func, not_, or_, select, true
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from authz.predicate import TRUE, Exists, Path, Predicate
from pubsub_core.history.position import ALWAYS, Position, Span
from pubsub_core.history.storage.condition import Compiler

_Columns: TypeAlias = "ReadOnlyColumnCollection[str, Column[Any]]"


@dataclass(frozen=True, slots=True)
class Reading:
    """Which events of a type are to be read."""

    type: str
    spans: Sequence[Span] = ALWAYS
    filter: Predicate = TRUE
    rows: tuple[int, int | None] = (0, None)
    """After this row, up to and including that one."""


@dataclass(frozen=True, slots=True)
class Clause:
    """Events of a time that a filter lets through."""

    span: Span = ALWAYS[0]
    filter: Predicate = TRUE


@dataclass(frozen=True, slots=True)
class Counting:
    """Which events of a type are to be counted: those with a value of an attribute, within a time."""

    type: str
    attribute: str
    within: Span = ALWAYS[0]
    wanted: Sequence[Clause] = (Clause(),)
    """They must be of one of these,"""
    unless: Sequence[Clause] = ()
    """and of none of these."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How many there are, and the times of the first and the last; None if there is none."""

    events: int
    first: float | None
    last: float | None


MOST_CLAUSES = 100
"""Maximum clauses in one query, for the same reason as spans."""
MOST_SPANS = 100
"""Maximum spans in one query: a fluent may have held ten thousand times, and databases limit a query's size."""


def upcoming(spans: Sequence[Span], after: Position | None) -> tuple[Sequence[Span], Position | None]:
    """The spans that the next page is read from, and where the page after it begins, if there are more."""
    left = [each for each in _disjoint(spans) if after is None or each.end > after.time]
    return left[:MOST_SPANS], Position(left[MOST_SPANS].start) if len(left) > MOST_SPANS else None


def _disjoint(spans: Sequence[Span]) -> list[Span]:
    """The same times, in order."""
    found: list[Span] = []
    for each in sorted(spans, key=lambda span: span.start):
        if found and each.start <= found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


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


def counting(columns: _Columns, compiler: Compiler, wanted: Counting) -> Select[int, float, float] | None:
    """What counts events without opening one; None if the database does not know enough to be exact."""
    clauses = (*wanted.wanted, *wanted.unless)
    conditions = {each: compiler.compile(each.filter) for each in clauses}
    there = compiler.compile(Exists(Path("event", (wanted.attribute,))))
    if len(clauses) > MOST_CLAUSES or not all(each.exact for each in (there, *conditions.values())):
        return None

    def any_of(some: Sequence[Clause]) -> ColumnElement[bool]:
        terms = (and_(true(), *_bounds(columns.time, each.span), conditions[each].sql) for each in some)
        return or_(false(), *terms)

    query: Select[int, float, float] = select(func.count(), func.min(columns.time), func.max(columns.time))
    bounds = _bounds(columns.time, wanted.within)
    query = query.where(*bounds, there.sql, any_of(wanted.wanted))
    return query.where(not_(any_of(wanted.unless))) if wanted.unless else query
