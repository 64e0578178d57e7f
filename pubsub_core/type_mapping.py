"""Versions side by side: what an event made by one version of a type is to someone who knows another.

Attributes are the same wherever their UUIDs are. What the reader's version does not have is left out; what its
version types otherwise is converted where that loses nothing, and left out where it would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pubsub_core.event_type import Attribute, AttributeType

_T = AttributeType
_CONVERSIONS: Mapping[tuple[AttributeType, AttributeType], Callable[[object], object]] = {
    (_T.INTEGER, _T.FLOAT): lambda value: float(str(value)),
    (_T.INTEGER, _T.TIMESTAMP): lambda value: float(str(value)),
    (_T.INTEGER, _T.STRING): str,
    (_T.FLOAT, _T.STRING): str,
    (_T.FLOAT, _T.TIMESTAMP): lambda value: value,
    (_T.TIMESTAMP, _T.FLOAT): lambda value: value,
    (_T.BOOLEAN, _T.STRING): lambda value: "true" if value else "false",
}


def read_as(
    values: Mapping[str, object], written: Mapping[str, Attribute], read: Mapping[str, Attribute]
) -> dict[str, object]:
    """The values of an event, by UUID, as the reader's version has them, by name."""
    found: dict[str, object] = {}
    for id_, value in values.items():
        wanted = read.get(id_)
        if wanted is None or value is None:
            continue
        has = written[id_].type if id_ in written else wanted.type
        if has is wanted.type:
            found[wanted.name] = value
        elif convert := _CONVERSIONS.get((has, wanted.type)):
            found[wanted.name] = convert(value)
    return found
