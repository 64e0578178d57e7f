"""Events as people write and read them: `plate=AB12 speed=58.5`, or one JSON object a line."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from time import time
from typing import Any

import msgspec

from authfabric.terminal import printable, seconds_of
from pubsub_core import Delivered, Gap, InvalidEvent
from pubsub_core.types import Attribute, AttributeType

BEGINNING = "beginning"
NOW = "now"


def parse_pairs(pairs: Iterable[str], attributes: Mapping[str, Attribute]) -> dict[str, object]:
    """The values of an event that were written as NAME=VALUE. Raises InvalidEvent."""
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidEvent(pair, "must be NAME=VALUE")
        values[name] = _value(text, _known(name, attributes))
    return values


def parse_line(line: str, attributes: Mapping[str, Attribute]) -> dict[str, object]:
    """The values of an event that was written as one JSON object. Raises InvalidEvent."""
    try:
        read = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidEvent(line[:40], f"must be one JSON object: {error}") from None
    return {
        name: _value(value, _known(name, attributes)) if isinstance(value, str) else value
        for name, value in read.items()
        if value is not None
    }


def _known(name: str, attributes: Mapping[str, Attribute]) -> Attribute:
    found = attributes.get(name)
    if found is None:
        raise InvalidEvent(name, f"is no attribute of the type: it has {', '.join(attributes)}")
    return found


def _value(text: str, attribute: Attribute) -> object:
    try:
        match attribute.type:
            case AttributeType.INTEGER:
                return int(text)
            case AttributeType.FLOAT:
                return float(text)
            case AttributeType.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
            case AttributeType.TIMESTAMP:
                return parse_time(text)
            case AttributeType.BYTES:
                return base64.b64decode(text, validate=True)
            case AttributeType.GEO:
                lat, lon = map(float, text.split(","))
                return {"lat": lat, "lon": lon}
    except (ValueError, KeyError, binascii.Error):
        raise InvalidEvent(attribute.name, f"must be {_FORMS[attribute.type]}, not `{text}`") from None
    return text


_FORMS = {
    AttributeType.INTEGER: "a whole number",
    AttributeType.FLOAT: "a number",
    AttributeType.BOOLEAN: "true or false",
    AttributeType.TIMESTAMP: "a time such as 2030-01-31T08:00:00Z, `now`, or Unix seconds",
    AttributeType.BYTES: "base64 text",
    AttributeType.GEO: "LATITUDE,LONGITUDE",
}


def parse_time(text: str) -> float:
    """Unix seconds: `now`, `1h` ago, `beginning`, Unix seconds or a time in ISO 8601. Raises ValueError."""
    if text == NOW:
        return time()
    if text == BEGINNING:
        return 0.0
    ago = seconds_of(text)
    if ago is not None:
        return time() - ago
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return float(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.astimezone()).timestamp()


def event_text(event: Delivered, show_type: bool) -> str:
    """One line about an event, marked up."""
    past = "[dim]past[/] " if event.replayed else ""
    name = f"[bold]{printable(event.type.name)}[/] " if show_type else ""
    values = " ".join(f"[cyan]{name}[/]={printable(_shown(value))}" for name, value in _ordered(event))
    return f"[dim]{_clock(event.time)}[/] {past}{name}{values}"


def _ordered(event: Delivered) -> list[tuple[str, object]]:
    """The attributes as the definition has them."""
    order = {each.name: position for position, each in enumerate(event.type.attributes)}
    return sorted(event.attributes.items(), key=lambda pair: order.get(pair[0], math.inf))


def event_document(event: Delivered) -> dict[str, object]:
    """An event as one JSON object."""
    return {
        "type": event.type.name,
        "time": event.time,
        "publisher": str(event.publisher),
        "sequence": event.sequence,
        "replayed": event.replayed,
        "attributes": dict(event.attributes),
    }


def gap_document(gap: Gap) -> dict[str, object]:
    """What is missing, as one JSON object."""
    return {
        "gap": gap.reason.value,
        "type": gap.type.name,
        "from": gap.from_,
        "to": gap.to,
        "count": gap.count,
        "detail": gap.detail,
    }


def _clock(at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC).astimezone()
    today = moment.date() == datetime.now().astimezone().date()
    return f"{moment:%H:%M:%S}" if today else f"{moment:%Y-%m-%d %H:%M:%S}"


def _shown(value: object) -> str:
    if isinstance(value, str) and value and not re.search(r"[\s\"'=]", value):
        return value
    return msgspec.json.encode(value).decode()
