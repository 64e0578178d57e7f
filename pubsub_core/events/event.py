"""Events: what happened, as the values of a type's attributes, in the form in which they travel.

An event is encoded once, by its publisher. Attributes stand under their UUIDs, so that each can be left out or
sealed on its own, and no name of a type or an attribute travels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Annotated, TypeAlias

import msgspec

from authz.errors import UNREADABLE
from pubsub_core.errors import InvalidEvent
from pubsub_core.keys import Sealed
from pubsub_core.types import Attribute, AttributeType

MAX_EVENT_BYTES = 64 * 1024
TOO_LARGE = (
    f"must have at most {MAX_EVENT_BYTES} bytes, not {{}}: keep the rest elsewhere, and publish where it is"
)
"""The error for a larger event."""
_INTEGERS = range(-(2**63), 2**63)
_LEAST, _MOST = -(2.0**63), 2.0**63  # exact, and quick to compare with either kind of number
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=_INTEGERS[0], le=_INTEGERS[-1])]
"""As large as databases have them, and no larger: what is sent could be twice that."""


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event. New fields come last and have defaults."""

    type: str
    """The type's UUID."""
    version: str
    """The UUID of the version by which it was made."""
    publisher: bytes
    """The publisher's public key."""
    time: float
    """When it was published, by the publisher's clock."""
    sequence: Number
    """Its number among all events of this publisher's session: it tells one event from another."""
    attributes: dict[str, object]
    """Values by the attributes' UUIDs."""
    sealed: Sealed | None = None
    """Between brokers: the values that not every broker may read."""

    def narrowed(self, visible: frozenset[str] | None) -> Event:
        """The event with these attributes alone, if not with all; the very same, if it has no others."""
        if visible is None or visible >= self.attributes.keys():
            return self
        seen = {id_: value for id_, value in self.attributes.items() if id_ in visible}
        return msgspec.structs.replace(self, attributes=seen)


encode = msgspec.msgpack.Encoder().encode
"""The bytes of an event."""

_decode = msgspec.msgpack.Decoder(Event).decode


def decode(data: bytes | memoryview | msgspec.Raw) -> Event:
    """Read what `encode` wrote. Raises InvalidEvent."""
    try:
        return _decode(data)
    except UNREADABLE as error:
        raise InvalidEvent("event", f"cannot be read: {str(error).lower()}") from None


class Shape:
    """What events of one version of a type may hold."""

    def __init__(self, attributes: Mapping[str, Attribute]) -> None:
        """Takes all attributes, inherited ones too, by UUID."""
        self.attributes = attributes
        self._fits = {id_: _FITS[each.type] for id_, each in attributes.items()}
        self._usual = {id_: _USUAL.get(each.type) for id_, each in attributes.items()}
        self._named = {each.name: (each.id, _USUAL.get(each.type)) for each in attributes.values()}

    def check(self, values: Mapping[str, object]) -> None:
        """Raise InvalidEvent, naming the attribute, unless every value fits. What is missing is simply not said."""
        fits, usual = self._fits, self._usual
        for id_, value in values.items():
            kind = value.__class__
            # The common cases, at once: a string, or a number that is finite and not too large.
            if kind is usual.get(id_) and (kind is str or _LEAST <= value < _MOST):  # type: ignore[operator]
                continue
            test = fits.get(id_)
            if test is None:
                raise InvalidEvent(id_, "is not an attribute of this type")
            if value is not None and not test(value):
                attribute = self.attributes[id_]
                raise InvalidEvent(attribute.name, f"must be {_WORDS[attribute.type]}, not {value!r:.60}")

    def checker(self, id_: str) -> Callable[[object], None]:
        """The same check for the values of one attribute, which are never missing."""
        usual = self._usual[id_]

        def check(value: object) -> None:
            kind = value.__class__
            if kind is not usual or (kind is not str and not _LEAST <= value < _MOST):  # type: ignore[operator]
                self.check({id_: value})

        return check

    def by_id(self, named: Mapping[str, object]) -> dict[str, object]:
        """Values by UUID, from values by name, checked. Raises InvalidEvent."""
        values: dict[str, object] = {}
        for name, value in named.items():
            if name not in self._named:
                known = ", ".join(f"`{each}`" for each in self._named)
                raise InvalidEvent(name, f"is not an attribute of this type: it has {known}")
            id_, usual = self._named[name]
            values[id_] = value
            kind = value.__class__
            if kind is not usual or (kind is not str and not _LEAST <= value < _MOST):  # type: ignore[operator]
                self.check({id_: value})
        return values


def _is_number(value: object) -> bool:
    kind = value.__class__
    return (kind is float and isfinite(value)) or (kind is int and value in _INTEGERS)  # type: ignore[arg-type]


def _is_place(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"lat", "lon"}:
        return False
    lat, lon = value["lat"], value["lon"]
    return _is_number(lat) and _is_number(lon) and -90 <= lat <= 90 and -180 <= lon <= 180


_FITS: Mapping[AttributeType, Callable[[object], bool]] = {
    AttributeType.STRING: lambda value: value.__class__ is str,
    AttributeType.INTEGER: lambda value: value.__class__ is int and value in _INTEGERS,
    AttributeType.FLOAT: _is_number,
    AttributeType.BOOLEAN: lambda value: value.__class__ is bool,
    AttributeType.TIMESTAMP: _is_number,
    AttributeType.BYTES: lambda value: value.__class__ is bytes,
    AttributeType.GEO: _is_place,
}
_USUAL: Mapping[AttributeType, type] = {
    AttributeType.STRING: str,
    AttributeType.INTEGER: int,
    AttributeType.FLOAT: float,
    AttributeType.TIMESTAMP: float,
}
_WORDS: Mapping[AttributeType, str] = {
    AttributeType.STRING: "a string",
    AttributeType.INTEGER: "a whole number of at most 64 bits",
    AttributeType.FLOAT: "a finite number",
    AttributeType.BOOLEAN: "true or false",
    AttributeType.TIMESTAMP: "a time in Unix seconds",
    AttributeType.BYTES: "bytes",
    AttributeType.GEO: "a place with `lat` and `lon` in degrees",
}
