"""The attributes of events in JSON: text where JSON has no type of its own, read by the type of each attribute."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from authz.errors import UNREADABLE
from pubsub_core.errors import InvalidEvent
from pubsub_core.types import Attribute, AttributeType

_FORMS = {
    AttributeType.INTEGER: "a whole number",
    AttributeType.FLOAT: "a number",
    AttributeType.BOOLEAN: "true or false",
    AttributeType.TIMESTAMP: "a time such as 2030-01-31T08:00:00Z, or Unix seconds",
    AttributeType.BYTES: "base64 text",
    AttributeType.GEO: "LATITUDE,LONGITUDE",
}


def moment(text: str) -> float:
    """Unix seconds, of those or of a time in ISO 8601; local time without an offset. Raises ValueError."""
    try:
        return float(text)
    except ValueError:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.astimezone()).timestamp()


def read_values(
    data: bytes | str, attributes: Mapping[str, Attribute], when: Callable[[str], float] = moment
) -> dict[str, object]:
    """The values of an event from one JSON object; those that are null are not said. Raises InvalidEvent."""
    try:
        read = msgspec.json.decode(data, type=dict[str, Any])
    except UNREADABLE as error:
        shown = data if isinstance(data, str) else data.decode(errors="replace")
        raise InvalidEvent(shown[:40], f"must be one JSON object: {error}") from None
    return {
        name: read_value(value, attribute_named(name, attributes), when) if isinstance(value, str) else value
        for name, value in read.items()
        if value is not None
    }


def attribute_named(name: str, attributes: Mapping[str, Attribute]) -> Attribute:
    """Raises InvalidEvent, with the names that there are."""
    found = attributes.get(name)
    if found is None:
        raise InvalidEvent(name, f"is no attribute of the type: it has {', '.join(attributes)}")
    return found


def read_value(text: str, attribute: Attribute, when: Callable[[str], float] = moment) -> object:
    """What text says, by the attribute's type. Raises InvalidEvent."""
    try:
        match attribute.type:
            case AttributeType.INTEGER:
                return int(text)
            case AttributeType.FLOAT:
                return float(text)
            case AttributeType.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
            case AttributeType.TIMESTAMP:
                return when(text)
            case AttributeType.BYTES:
                return base64.b64decode(text, validate=True)
            case AttributeType.GEO:
                lat, lon = map(float, text.split(","))
                return {"lat": lat, "lon": lon}
    except (ValueError, KeyError, OverflowError, binascii.Error):
        raise InvalidEvent(attribute.name, f"must be {_FORMS[attribute.type]}, not `{text}`") from None
    return text


def json_values(values: Mapping[str, object]) -> dict[str, object]:
    """Values as JSON has them: bytes as base64 text."""
    return {
        name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for name, value in values.items()
    }
