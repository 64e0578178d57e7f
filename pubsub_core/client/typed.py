"""Typed events: a Python class for a type of event, from its definition or the other way round.

    class Sighting(Event):
        plate: str
        speed: float | None = None

    async for sighting in client.subscribe(Sighting, Sighting.plate == "AB12CDE"):
        print(sighting.speed)

An attribute that policies may withhold is declared with None as its default.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform
from uuid import uuid4

import msgspec

from authz import PublicKey
from authz.predicate.filter import write_operand
from pubsub_core.errors import InvalidEvent, InvalidType
from pubsub_core.types import AttributeType, EventType


class Place(msgspec.Struct, frozen=True):
    """A `geopoint`, in degrees."""

    lat: float
    lon: float


KINDS: Mapping[type, AttributeType] = {
    str: AttributeType.STRING,
    int: AttributeType.INTEGER,
    float: AttributeType.FLOAT,
    bool: AttributeType.BOOLEAN,
    datetime: AttributeType.TIMESTAMP,
    bytes: AttributeType.BYTES,
    Place: AttributeType.GEO,
}
"""What each Python type is as an attribute."""
_PYTHON = {kind: python for python, kind in KINDS.items()}


class Condition:
    """A filter, made of comparisons: `(Sighting.plate == "AB12") & (Sighting.speed > 50)`."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) AND ({other.text})")

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self.text}) OR ({other.text})")

    def __invert__(self) -> Condition:
        return Condition(f"NOT ({self.text})")

    def __bool__(self) -> bool:
        raise TypeError("a condition is neither true nor false: join conditions by `&`, `|` and `~`")

    def __str__(self) -> str:
        return self.text


class Field:
    """An attribute of a typed event, to be compared."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _compare(self, operator: str, value: object) -> Condition:
        return Condition(f"{self.name} {operator} {_constant(value)}")

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        return self.is_null() if value is None else self._compare("=", value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return ~self.is_null() if value is None else self._compare("!=", value)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, value: object) -> Condition:
        return self._compare("<", value)

    def __le__(self, value: object) -> Condition:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Condition:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Condition:
        return self._compare(">=", value)

    def in_(self, values: Iterable[object]) -> Condition:
        return Condition(f"{self.name} IN ({', '.join(map(_constant, values))})")

    def starts_with(self, text: str) -> Condition:
        return self._compare("STARTS WITH", text)

    def contains(self, text: str) -> Condition:
        return self._compare("CONTAINS", text)

    def is_null(self) -> Condition:
        return Condition(f"{self.name} IS NULL")


def _constant(value: object) -> str:
    if isinstance(value, datetime):
        return write_operand(value.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    return write_operand(cast("str", value))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class _Meta(msgspec.StructMeta):
    """Gives a class's attributes as fields to compare; those of its instances are values."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        return super().__new__(cls, name, bases, namespace, **{"frozen": True, "kw_only": True, **options})

    def __getattribute__(cls, name: str) -> Any:
        if not name.startswith("_") and name in type.__getattribute__(cls, "__struct_fields__"):
            return Field(name)
        return super().__getattribute__(name)


class Event(msgspec.Struct, metaclass=_Meta):
    """The base of typed events. `__type__` is the type's name, if it is another than the class's."""

    __type__: ClassVar[str] = ""


E = TypeVar("E", bound=Event)


def type_name(kind: type[Event]) -> str:
    """The name of the type that a class stands for."""
    return kind.__type__ or kind.__name__


@cache
def attribute_types(kind: type[Event]) -> dict[str, AttributeType]:
    """The attributes that a class declares. Raises InvalidType for one that is of no type of attributes."""
    hints = typing.get_type_hints(kind)
    return {name: _attribute_type(name, hints[name]) for name in kind.__struct_fields__}


def _attribute_type(name: str, hint: object) -> AttributeType:
    options = [each for each in typing.get_args(hint) if each is not type(None)]
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    python = options[0] if is_union and len(options) == 1 else hint
    found = KINDS.get(cast("type", python))
    if found is None:
        known = ", ".join(each.__name__ for each in KINDS)
        raise InvalidType(name, f"must be one of {known}, or that or None")
    return found


def define(kind: type[Event], owner: PublicKey) -> EventType:
    """A first definition of the type that a class stands for, for its owner to sign. Raises InvalidType."""
    return EventType.new(type_name(kind), owner, attribute_types(kind).items(), uuid4)


def event_class(definition: EventType) -> type[Event]:
    """A class for a definition: all its attributes may be withheld."""
    name = definition.name.rpartition(".")[2]
    hints = {each.name: _PYTHON[each.type] | None for each in definition.attributes}

    def body(namespace: dict[str, Any]) -> None:
        namespace.update(dict.fromkeys(hints), __annotations__=hints, __type__=definition.name)
        namespace["__module__"] = __name__

    return cast("type[Event]", types.new_class(name, (Event,), {}, body))


def check_fits(kind: type[Event], definition: EventType, known: Mapping[str, AttributeType]) -> None:
    """Raise InvalidType unless every attribute that a class declares is one of the type, and of that type."""
    for name, declared in attribute_types(kind).items():
        if name not in known:
            raise InvalidType(
                f"{kind.__name__}.{name}",
                f"is no attribute of `{definition.name}`: it has {', '.join(known)}",
            )
        if known[name] is not declared:
            raise InvalidType(
                f"{kind.__name__}.{name}",
                f"is declared {declared}, and `{definition.name}` has it as {known[name]}",
            )


def values_of(event: Event) -> dict[str, object]:
    """The attributes of a typed event, as they are published; those that are None are not said."""
    values = {name: getattr(event, name) for name in event.__struct_fields__}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.timestamp()
        case Place(lat, lon):
            return {"lat": lat, "lon": lon}
    return value


_READ: Mapping[AttributeType, Callable[[Any], object]] = {
    AttributeType.TIMESTAMP: lambda value: datetime.fromtimestamp(value, UTC),
    AttributeType.GEO: lambda value: Place(**value),
}


def typed(kind: type[E], attributes: Mapping[str, object]) -> E:
    """The typed event with these attributes; others are left out. Raises InvalidEvent if one is missing."""
    declared = attribute_types(kind)
    values = {
        name: _READ[as_](attributes[name]) if as_ in _READ else attributes[name]
        for name, as_ in declared.items()
        if attributes.get(name) is not None
    }
    try:
        return kind(**values)
    except TypeError:
        optional = set(kind.__struct_fields__[len(kind.__struct_fields__) - len(kind.__struct_defaults__) :])
        missing = next(name for name in declared if name not in values and name not in optional)
        raise InvalidEvent(
            missing,
            f"is not in this event: declare it in `{kind.__name__}` with None as its default, since policies withhold"
            " it from you, or its publisher does not say it",
        ) from None


def stubs(definitions: Iterable[EventType]) -> str:
    """Python source with a class for each definition."""
    lines = ['"""Typed events, written by `authfabric event stubs`."""', ""]
    made = list(definitions)
    kinds = {each.type for definition in made for each in definition.attributes}
    if AttributeType.TIMESTAMP in kinds:
        lines += ["from datetime import datetime", ""]
    names = "Event, Place" if AttributeType.GEO in kinds else "Event"
    lines.append(f"from pubsub_core import {names}")
    for definition in made:
        lines += [
            "",
            "",
            f"class {definition.name.rpartition('.')[2]}(Event):",
            f'    __type__ = "{definition.name}"',
            "",
        ]
        lines += [
            f"    {each.name}: {_PYTHON[each.type].__name__} | None = None" for each in definition.attributes
        ]
    return "\n".join(lines) + "\n"
