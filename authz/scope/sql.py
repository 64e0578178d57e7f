"""From a scope to SQL, for PostgreSQL and SQLite: exactly what the predicate says, or a refusal that names the place.

A comparison of a null, or of a value of another type, is false, and its negation true: SQL's third truth value appears
nowhere. Texts are compared by code point, whatever the column's collation. SQLite lets any value stand in any column:
there every comparison asks for the type of the value, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from authz.extras import needing
from authz.predicate import (
    And,
    AnyComparison,
    Contains,
    Equal,
    EqualDocument,
    Exists,
    In,
    Kind,
    Names,
    Not,
    Or,
    Order,
    Overlaps,
    Path,
    Predicate,
    Prefix,
    Relate,
    Subset,
    Suffix,
)
from authz.scope.scope import Scope, ScopeRefused

with needing("lists"):
    from sqlalchemy import (
        BigInteger,
        Boolean,
        ColumnElement,
        Float,
        Integer,
        String,
        and_,
        cast,
        collate,
        false,
        func,
        literal,
        not_,
        or_,
        true,
        type_coerce,
    )

Sql: TypeAlias = ColumnElement[bool]
Column: TypeAlias = ColumnElement[Any]

DIALECTS = ("postgresql", "sqlite")
_INTEGERS = range(-(2**63), 2**63)
_EXACT = 2**53
"""Up to this, every whole number is a floating-point number of its own."""


def to_sql(scope: Scope, columns: Mapping[str, Any], dialect: str) -> Sql:
    """Raises ScopeRefused."""
    if dialect not in DIALECTS:
        raise ScopeRefused(f"there is no SQL for `{dialect}`, only for {' and '.join(DIALECTS)}")
    compiler = _Compiler(scope, columns, dialect == "sqlite")
    return and_(compiler.askable(), compiler.term(scope.predicate, True))


class _Unsayable(Exception):
    """Why a comparison has no SQL."""


class _Compiler:
    def __init__(self, scope: Scope, columns: Mapping[str, Any], sqlite: bool) -> None:
        self._scope = scope
        self._columns = columns
        self._sqlite = sqlite

    def askable(self) -> Sql:
        """SQL that is false of objects whose path has `.` or `..` as a segment: nobody can be asked about them."""
        if "id" not in self._columns or not isinstance(_element(self._columns["id"]).type, String):
            return true()
        path = self._binary(literal("/") + self._name() + literal("/"))
        place = func.instr if self._sqlite else func.strpos
        return and_(*[place(path, literal(segment)) == 0 for segment in ("/./", "/../")])

    def term(self, term: Predicate, wanted: bool) -> Sql:
        """SQL that is true where the predicate has the wanted truth value, and false elsewhere."""
        match term:
            case Not(inner):
                return self.term(inner, not wanted)
            case And(terms) | Or(terms):
                several = [self.term(each, wanted) for each in terms]
                if isinstance(term, And) is wanted:
                    return and_(true(), *several)
                return or_(false(), *several)
        try:
            found = self._comparison(term)
        except _Unsayable as error:
            raise ScopeRefused(
                f"`{term}` cannot be said in SQL: {error}", self._scope.place_of(term)
            ) from None
        # Null is neither: so it is settled before it can be negated.
        return found if wanted else not_(func.coalesce(found, false()))

    def _comparison(self, test: AnyComparison) -> Sql:
        column = self._column(test.path)
        if column is None:
            return false()
        if isinstance(test, Relate):
            return self._relate(test, column)
        kind = _kind(column)
        match test:
            case Exists():
                return column.is_not(None)
            case Kind():
                return self._is(column, kind, test.kind)
            case Equal(value=value, fold=False):
                return self._equal(column, kind, value)
            case In(values=values):
                return or_(false(), *[self._equal(column, kind, each) for each in values])
            case Order():
                return self._order(column, kind, test)
            case Prefix(fold=False) | Suffix(fold=False) | Contains(fold=False):
                return self._text(column, kind, test)
            case Subset() | Overlaps() | Names():
                return false()  # which a scalar never is
            case EqualDocument() if isinstance(json.loads(test.json), (list, dict)):
                return false()
        raise _Unsayable("databases do not agree with policies about what it means")

    def _column(self, path: Path) -> Column | None:
        """The column of an attribute; None if no object has it."""
        if not path.keys:
            if "id" not in self._columns:
                raise _Unsayable("no column is given for the object's `id`")
            return self._name()
        name = str(path.keys[0])
        if name not in self._columns:
            raise _Unsayable(f"no column is given for `{name}`; None would say that no object has it")
        if self._columns[name] is None or len(path.keys) > 1:
            if self._columns[name] is not None:
                _kind(_element(self._columns[name]))  # a scalar has nothing inside
            return None
        return _element(self._columns[name])

    def _name(self) -> Column:
        """The object's whole name."""
        column = _element(self._columns["id"])
        text = column if _kind(column) == "string" else cast(column, String)
        return literal(self._scope.under, String) + text

    def _is(self, column: Column, kind: str, wanted: str) -> Sql:
        """Whether the value is of a type."""
        if kind == "boolean" or not self._sqlite:
            if kind != wanted:
                return false()
            is_nan = column == literal(math.nan, Float) if isinstance(column.type, Float) else None
            return (
                column.is_not(None)
                if is_nan is None or self._sqlite
                else and_(column.is_not(None), not_(is_nan))
            )
        if wanted == "string":
            return func.typeof(column) == "text"
        if wanted == "number":
            return func.typeof(column).in_(["integer", "real"])
        return false()

    def _equal(self, column: Column, kind: str, value: object) -> Sql:
        if isinstance(value, bool):
            return column.is_(value) if kind == "boolean" else false()
        if isinstance(value, str):
            return self._guarded(column, kind, "string", self._binary(column) == self._literal(value))
        assert isinstance(value, (int, float))
        bound = self._number(column, value, exact=True)
        return false() if bound is None else self._guarded(column, kind, "number", column == bound)

    def _order(self, column: Column, kind: str, test: Order) -> Sql:
        if isinstance(test.value, str):
            compared = _ordered(self._binary(column), test.op, self._literal(test.value))
            return self._guarded(column, kind, "string", compared)
        bound = self._number(column, test.value, exact=False)
        assert bound is not None
        return self._guarded(column, kind, "number", _ordered(column, test.op, bound))

    def _text(self, column: Column, kind: str, test: Prefix | Suffix | Contains) -> Sql:
        value, size = test.value, len(test.value)
        if not value:
            return self._is(column, kind, "string")
        wanted = self._literal(value)
        if isinstance(test, Contains):
            place = func.instr if self._sqlite else func.strpos
            return self._guarded(column, kind, "string", place(self._binary(column), wanted) > 0)
        if self._sqlite:
            part = func.substr(column, 1, size) if isinstance(test, Prefix) else func.substr(column, -size)
        else:
            part = (func.left if isinstance(test, Prefix) else func.right)(column, size)
        return self._guarded(column, kind, "string", self._binary(part) == wanted)

    def _relate(self, test: Relate, column: Column) -> Sql:
        other = self._column(test.other)
        if other is None:
            return false()
        kinds = (_kind(column), _kind(other))
        if test.op in ("in", "subset", "overlaps"):
            return false()
        if self._sqlite:
            raise _Unsayable("SQLite compares two columns by rules of its own")
        if kinds[0] != kinds[1]:
            return false()
        present = and_(column.is_not(None), other.is_not(None))
        if test.op == "comparable":
            return and_(self._is(column, kinds[0], kinds[0]), self._is(other, kinds[0], kinds[0]))
        if kinds[0] == "number" and type(column.type) is not type(other.type):
            raise _Unsayable("the columns hold different kinds of numbers")
        if kinds[0] == "boolean" and test.op != "==":
            return false()
        left, right = (self._binary(each) if kinds[0] == "string" else each for each in (column, other))
        numbers = (
            [self._is(each, "number", "number") for each in (column, other)] if kinds[0] == "number" else []
        )
        compared = left == right if test.op == "==" else _ordered(left, test.op, right)
        return and_(present, *numbers, compared)

    def _guarded(self, column: Column, kind: str, wanted: str, compared: Sql) -> Sql:
        """The comparison, of values of that type only."""
        if kind == "boolean" or (kind != wanted and not self._sqlite):
            return false()
        if self._sqlite or isinstance(column.type, Float):
            return and_(self._is(column, kind, wanted), compared)
        return compared

    def _binary(self, column: Column) -> Column:
        """The text by code point."""
        return collate(type_coerce(column, String), "BINARY" if self._sqlite else "C")

    def _literal(self, value: str) -> Column:
        if "\0" in value:
            raise _Unsayable("it has a zero character, which databases do not keep")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Unsayable("it is no Unicode text") from None
        return literal(value, String)

    def _number(self, column: Column, value: float, *, exact: bool) -> Column | None:
        """The number as it can be compared without loss; None if the column cannot hold it."""
        if isinstance(value, float) and not math.isfinite(value):
            raise _Unsayable("it is no finite number")
        if isinstance(value, int) and value not in _INTEGERS:
            raise _Unsayable("the number has more than 64 bits")
        if self._sqlite:
            return literal(value, Float if isinstance(value, float) else Integer)
        if isinstance(column.type, Float):
            if isinstance(value, int) and abs(value) > _EXACT:
                raise _Unsayable("the number has more digits than the column keeps")
            return literal(float(value), Float)
        if isinstance(value, int):
            return literal(value, BigInteger)
        if value.is_integer() and abs(value) <= _EXACT:
            return self._number(column, int(value), exact=exact)
        if exact and not value.is_integer():
            return None
        raise _Unsayable("a column of whole numbers is compared with a fraction")


def _element(given: Any) -> Column:
    """Raises TypeError for what is no column, such as the name of one."""
    element: Column = given.__clause_element__() if hasattr(given, "__clause_element__") else given
    if not isinstance(element, ColumnElement):
        raise TypeError(
            f"{given!r} is no column: give one of SQLAlchemy's, such as `documents.c.owner`, or None"
        )
    return element


def _kind(column: Column) -> str:
    kind = column.type
    if isinstance(kind, Boolean):
        return "boolean"
    if isinstance(kind, String):
        return "string"
    if isinstance(kind, Integer) or (isinstance(kind, Float) and not kind.asdecimal):
        return "number"
    raise _Unsayable(f"columns of type {kind!r} are not compared: give one of texts, numbers or booleans")


def _ordered(left: Column, op: str, right: Column) -> Sql:
    compared: Sql = left.op(op, is_comparison=True)(right)
    return compared
