"""Versions side by side: what an event made by one version of a type is to someone who knows another.

Attributes are the same wherever their UUIDs are. What the reader's version does not have is left out; what its
version types otherwise is converted where that loses nothing, and left out where it would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pubsub_core.types.event_type import Attribute, AttributeType

Reader: TypeAlias = Callable[[Mapping[str, object]], dict[str, object]]

_T = AttributeType
CONVERSIONS: Mapping[tuple[AttributeType, AttributeType], Callable[[object], object]] = {
    (_T.INTEGER, _T.FLOAT): lambda value: float(str(value)),
    (_T.INTEGER, _T.TIMESTAMP): lambda value: float(str(value)),
    (_T.INTEGER, _T.STRING): str,
    (_T.FLOAT, _T.STRING): str,
    (_T.FLOAT, _T.TIMESTAMP): lambda value: value,
    (_T.TIMESTAMP, _T.FLOAT): lambda value: value,
    (_T.BOOLEAN, _T.STRING): lambda value: "true" if value else "false",
}


def reader(written: Mapping[str, Attribute], read: Mapping[str, Attribute]) -> Reader:
    """What turns the values of an event made by one version, by UUID, into those that another has, by name."""
    common = {id_: wanted for id_, wanted in read.items() if id_ in written}
    names = {id_: wanted.name for id_, wanted in common.items() if written[id_].type is wanted.type}
    converted = {
        id_: (wanted.name, CONVERSIONS[written[id_].type, wanted.type])
        for id_, wanted in common.items()
        if (written[id_].type, wanted.type) in CONVERSIONS
    }

    def as_read(values: Mapping[str, object]) -> dict[str, object]:
        found = {names[id_]: value for id_, value in values.items() if id_ in names and value is not None}
        for id_, (name, convert) in converted.items():
            if values.get(id_) is not None:
                found[name] = convert(values[id_])
        return found

    return as_read
