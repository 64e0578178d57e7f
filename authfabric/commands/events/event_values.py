"""Events as people write and read them: `plate=AB12 speed=58.5`, or one JSON object a line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from time import time

import msgspec

from authfabric.terminal import printable, seconds_of
from pubsub_core import Delivered, Gap, InvalidEvent
from pubsub_core.client import attribute_named, read_value, read_values
from pubsub_core.types import Attribute

BEGINNING = "beginning"
NOW = "now"


def parse_pairs(pairs: Iterable[str], attributes: Mapping[str, Attribute]) -> dict[str, object]:
    """The values of an event that were written as NAME=VALUE. Raises InvalidEvent."""
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InvalidEvent(pair, "must be NAME=VALUE")
        values[name] = read_value(text, attribute_named(name, attributes), parse_time)
    return values


def parse_line(line: str, attributes: Mapping[str, Attribute]) -> dict[str, object]:
    """The values of an event that was written as one JSON object. Raises InvalidEvent."""
    return read_values(line, attributes, parse_time)


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
