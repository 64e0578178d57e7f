"""From predicate to SQL: as much of a filter as the database can judge without opening an event.

What the database cannot judge is left to whoever opens the events. Invariant: every event of which the predicate holds
satisfies the SQL. Where the SQL says the same as the predicate, and not merely less, it is exact; only then is it
negated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from sqlalchemy import Column, ColumnElement, and_, false, func, not_, or_, true

from authz.predicate import (
    And,
    AnyComparison,
    Equal,
    Exists,
    In,
    Not,
    Or,
    Order,
    Predicate,
    Prefix,
    Scalar,
)
from authz.predicate.terms import Number, OrderName
from pubsub_core.history.retention import Search
from pubsub_core.types import AttributeType

Sql: TypeAlias = ColumnElement[bool]
Blinds: TypeAlias = Callable[[str, Scalar], Sequence[bytes]]

_INTEGERS = range(-(2**63), 2**63)
_EXACT = 2**53
"""Below this, every whole number is a floating-point number of its own."""
MOST_COMPARED = 500
"""Maximum values that one query compares with: SQLite nests expressions at most 1,000 deep."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A column that holds an attribute's values, blinded or clear, of every row from `since` on."""

    column: Column[object]
    search: Search
    kind: AttributeType
    since: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL that every match satisfies; if exact, nothing else does."""

    sql: Sql
    exact: bool = True


UNKNOWN = Condition(true(), exact=False)
NEVER = Condition(false())


@dataclass(frozen=True, slots=True)
class Compiler:
    """For the table of one type."""

    id: Column[int]
    indexed: Mapping[str, Indexed]
    """By the attribute's UUID."""
    blinds: Blinds

    def compile(self, predicate: Predicate) -> Condition:
        """What the database is asked; of a filter with too many comparisons, nothing."""
        return self._compile(predicate) if _size(predicate) <= MOST_COMPARED else UNKNOWN

    def _compile(self, predicate: Predicate) -> Condition:
        match predicate:
            case And(terms=terms):
                return self._join(and_, true(), terms)
            case Or(terms=terms):
                return self._join(or_, false(), terms)
            case Not(term=term):
                inner = self._compile(term)
                return Condition(not_(inner.sql)) if inner.exact else UNKNOWN
        return self._comparison(predicate)

    def _join(self, join: Callable[[Sql, Sql], Sql], neutral: Sql, terms: Sequence[Predicate]) -> Condition:
        parts = [self._compile(term) for term in terms]
        joined = reduce(join, (part.sql for part in parts)) if parts else neutral
        return Condition(joined, all(part.exact for part in parts))

    def _comparison(self, test: AnyComparison) -> Condition:
        attribute = str(test.path.keys[0]) if test.path.root == "event" and len(test.path.keys) == 1 else ""
        if (indexed := self.indexed.get(attribute)) is None:
            return UNKNOWN
        found = self._judge(test, attribute, indexed)
        if not indexed.since or found is UNKNOWN:
            return found
        return Condition(or_(self.id < indexed.since, found.sql), exact=False)

    def _judge(self, test: AnyComparison, attribute: str, indexed: Indexed) -> Condition:
        """Never NULL: the algebra is two-valued, and what is missing is compared as false."""
        clear = indexed.search is Search.CLEAR
        match test:
            case Exists():
                return Condition(indexed.column.is_not(None))
            case Equal(value=value, fold=False):
                return self._among(attribute, indexed, (value,))
            case In(values=values):
                return self._among(attribute, indexed, values)
            case Order(op=op, value=value) if clear:
                return _ordered(indexed, op, value)
            case Prefix(value=value, fold=False) if clear and indexed.kind is AttributeType.STRING:
                start = value.encode()
                begins = func.coalesce(
                    func.substr(indexed.column, 1, len(start)), b""
                )  # SQLite: of b"" it is NULL
                return Condition(_there(indexed, begins == start))
        return UNKNOWN

    def _among(self, attribute: str, indexed: Indexed, values: Sequence[Scalar]) -> Condition:
        fitting = [value for value in values if _fits(indexed.kind, value)]
        if not fitting:
            return NEVER
        exact = not any(isinstance(value, int | float) and abs(value) >= _EXACT for value in fitting)
        if indexed.search is Search.BLIND:
            stored: list[object] = [each for value in fitting for each in self.blinds(attribute, value)]
            return Condition(_there(indexed, indexed.column.in_(stored)), exact)
        whole = indexed.kind is AttributeType.INTEGER
        stored = [store(indexed.kind, value) for value in fitting if not whole or _is_whole(value)]
        return Condition(_there(indexed, indexed.column.in_(stored)), exact or whole) if stored else NEVER


def _size(predicate: Predicate) -> int:
    """How many values something is compared with in all."""
    match predicate:
        case And(terms=terms) | Or(terms=terms):
            return sum(map(_size, terms))
        case Not(term=term):
            return _size(term)
        case In(values=values):
            return len(values)
    return 1


def store(kind: AttributeType, value: object) -> object:
    """What stands in a clear column: strings as their bytes, which every database orders alike."""
    if value is None:
        return None
    match kind:
        case AttributeType.STRING:
            return str(value).encode()
        case AttributeType.INTEGER:
            return int(str(value)) if isinstance(value, int) else int(float(str(value)))
        case AttributeType.FLOAT | AttributeType.TIMESTAMP:
            return float(str(value))
    return value


def _there(indexed: Indexed, sql: Sql) -> Sql:
    return and_(indexed.column.is_not(None), sql)


def _fits(kind: AttributeType, value: Scalar) -> bool:
    """Whether a value of the attribute could equal this one at all."""
    match kind:
        case AttributeType.STRING:
            return isinstance(value, str)
        case AttributeType.BOOLEAN:
            return isinstance(value, bool)
    return isinstance(value, float) or (type(value) is int and value in _INTEGERS)


def _is_whole(value: Scalar) -> bool:
    return not isinstance(value, float) or (value.is_integer() and int(value) in _INTEGERS)


def _ordered(indexed: Indexed, op: OrderName, value: Number | str) -> Condition:
    match indexed.kind:
        case AttributeType.STRING:
            return _compared(indexed, op, value.encode()) if isinstance(value, str) else NEVER
        case AttributeType.BOOLEAN:
            return NEVER
    if isinstance(value, str):
        return NEVER
    if indexed.kind is AttributeType.INTEGER:
        return _whole(indexed, op, value)
    if abs(value) < _EXACT:
        return _compared(indexed, op, float(value))
    # A large whole number may have been rounded up to the bound or down to it.
    if value > 1e308 or value < -1e308:
        return UNKNOWN
    wider: OrderName = "<=" if op in ("<", "<=") else ">="
    return Condition(_compared(indexed, wider, float(value)).sql, exact=False)


def _whole(indexed: Indexed, op: OrderName, value: Number) -> Condition:
    """Whole numbers compared with the next whole number, so that no database converts them."""
    bound = math.ceil(value) if op in ("<", ">=") else math.floor(value)
    if bound in _INTEGERS:
        return _compared(indexed, op, bound)
    below = bound > 0
    return Condition(indexed.column.is_not(None)) if below == (op in ("<", "<=")) else NEVER


def _compared(indexed: Indexed, op: OrderName, value: object) -> Condition:
    return Condition(_there(indexed, indexed.column.op(op, is_comparison=True)(value)))
