"""What a filter means for one type: names become UUIDs, parameters values, and every comparison is type-checked.

A bound filter is a predicate about `event["<UUID>"]`. It holds for every version of the type and all its
sub-types, and tells nothing to whoever does not have the definition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from math import isfinite

from msgspec import structs

from authz.errors import InvalidPredicate
from authz.predicate import (
    AnyComparison,
    Cidr,
    Contains,
    Equal,
    Exists,
    Glob,
    In,
    Order,
    Path,
    Predicate,
    Prefix,
    Regex,
    Relate,
    Scalar,
    Suffix,
    compile_predicate,
    map_comparisons,
    map_paths,
)
from authz.predicate.compiler import EVENT as LAYOUT
from authz.predicate.cost import check_cost
from authz.predicate.filter import EVENT, PARAMETER, parse_filter
from pubsub_core.errors import InvalidFilter
from pubsub_core.types.event_type import Attribute, AttributeType

_T = AttributeType
_NUMBERS = frozenset({_T.INTEGER, _T.FLOAT, _T.TIMESTAMP})
_ORDERED = _NUMBERS | {_T.STRING}
_TEXT_TESTS = (Prefix, Suffix, Contains, Glob, Regex, Cidr)


def bind_filter(
    predicate: Predicate,
    names: Mapping[str, Attribute],
    *,
    readable: Collection[str] | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Predicate:
    """The predicate by UUIDs. Raises InvalidFilter, naming what does not fit.

    `names` are the type's attributes by name. `readable` are the UUIDs of those that may be asked about, None for all.
    """
    bound = _Binder(names, readable, parameters or {}).bind(predicate)
    try:
        compile_predicate(bound, LAYOUT)
    except InvalidPredicate as error:
        raise InvalidFilter(error.text, error.problem) from None
    return bound


def check_filter(text: str, names: Mapping[str, Attribute]) -> None:
    """See that a client's filter can be meant, at a cost that is bounded. Raises InvalidSyntax, InvalidFilter."""
    predicate = parse_filter(text)
    try:
        check_cost(predicate)
    except InvalidPredicate as error:
        raise InvalidFilter(error.text, error.problem) from None
    bind_filter(predicate, names)


def name_filter(predicate: Predicate, attributes: Mapping[str, Attribute]) -> Predicate:
    """A bound filter with names again, for people to read. `attributes` are those of the type, by UUID."""

    def named(path: Path) -> Path:
        known = attributes.get(str(path.keys[0]))
        return Path.variable(".".join((known.name, *map(str, path.keys[1:])))) if known else path

    return map_paths(predicate, named)


class _Binder:
    def __init__(
        self,
        names: Mapping[str, Attribute],
        readable: Collection[str] | None,
        parameters: Mapping[str, object],
    ) -> None:
        self._names = names
        self._readable = readable
        self._parameters = parameters

    def bind(self, term: Predicate) -> Predicate:
        return map_comparisons(term, self._comparison)

    def _comparison(self, test: AnyComparison) -> Predicate:
        path, kind = self._attribute(test.path)
        if isinstance(test, Relate):
            return self._relate(test, path, kind)
        if isinstance(test, Equal):
            return structs.replace(test, path=path, value=self._constant(test, kind, test.value))
        if isinstance(test, Order):
            if kind not in _ORDERED:
                raise InvalidFilter(
                    str(test.path.keys[0]), f"is a {kind}, which is not more or less than another"
                )
            return structs.replace(test, path=path, value=self._constant(test, kind, test.value))
        if isinstance(test, In):
            return In(path, tuple(self._constant(test, kind, each) for each in test.values))
        if isinstance(test, _TEXT_TESTS) and kind is not _T.STRING:
            raise InvalidFilter(_shown(test), f"is a test of strings, and the attribute is of type {kind}")
        if isinstance(test, (Exists, *_TEXT_TESTS)):
            return structs.replace(test, path=path)
        raise InvalidFilter(_shown(test), "is not a test that filters of events have")

    def _relate(self, test: Relate, path: Path, kind: AttributeType) -> Predicate:
        """A comparison with a parameter, which is a constant by now, or with another attribute."""
        if test.other.root == PARAMETER:
            value = self._parameter(str(test.other.keys[0]))
            if test.op == "==":
                return Equal(path, self._constant(test, kind, value))
            constant = self._constant(test, kind, value)
            if test.op in ("<", "<=", ">", ">=") and kind in _ORDERED and not isinstance(constant, bool):
                return Order(path, test.op, constant)
            raise InvalidFilter(_shown(test), "does not fit a parameter")
        other, other_kind = self._attribute(test.other)
        alike = kind is other_kind or {kind, other_kind} <= _NUMBERS
        if not alike or (test.op != "==" and kind not in _ORDERED):
            raise InvalidFilter(_shown(test), f"compares a {kind} with a {other_kind}")
        return Relate(path, test.op, other)

    def _attribute(self, path: Path) -> tuple[Path, AttributeType]:
        """The attribute's UUID in place of its name, and its type."""
        name = str(path.keys[0]) if path.keys else path.root
        attribute = self._names.get(name) if path.root == EVENT else None
        if attribute is None:
            known = ", ".join(f"`{each}`" for each in self._names)
            raise InvalidFilter(name, f"is not an attribute of this type: it has {known}")
        if self._readable is not None and attribute.id not in self._readable:
            raise InvalidFilter(name, "may not be read by you, so you cannot filter by it")
        rest = path.keys[1:]
        if not rest:
            return Path(EVENT, (attribute.id,)), attribute.type
        if attribute.type is not _T.GEO or rest not in (("lat",), ("lon",)):
            raise InvalidFilter(str(path), "has no parts: only a geopoint has `lat` and `lon`")
        return Path(EVENT, (attribute.id, *rest)), _T.FLOAT

    def _parameter(self, name: str) -> Scalar:
        value = self._parameters.get(name)
        if not isinstance(value, str | int | float | bool):
            raise InvalidFilter(f"${name}", "has no value here that could be compared")
        return value

    def _constant(self, test: AnyComparison, kind: AttributeType, value: Scalar) -> Scalar:
        if kind is _T.TIMESTAMP and isinstance(value, str):
            return _time(value)
        fits = {
            _T.STRING: isinstance(value, str),
            _T.BOOLEAN: isinstance(value, bool),
            _T.BYTES: False,
            _T.GEO: False,
        }.get(kind, isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value))
        if not fits:
            raise InvalidFilter(_shown(test), f"does not fit: the attribute is of type {kind}")
        return value


def _time(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError
    except ValueError:
        raise InvalidFilter(text, "must be a time such as 2030-01-31T23:59:59Z") from None
    return at.timestamp()


def _shown(test: AnyComparison) -> str:
    return str(test).removeprefix(f"{EVENT}.")
