"""CloudEvents 1.0, in the JSON form: what was delivered as one, and one as what is to be published."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from authz.errors import UNREADABLE
from pubsub_core.client.json_values import json_values
from pubsub_core.client.subscriber import Delivered
from pubsub_core.errors import InvalidEvent

SPECVERSION = "1.0"


class CloudEvent(msgspec.Struct, frozen=True):
    """The attributes of a CloudEvent that are heeded; all others are left out."""

    specversion: str
    id: str
    source: str
    type: str
    data: dict[str, Any] = {}
    time: str = ""


def to_cloud_event(event: Delivered) -> dict[str, object]:
    """An event as a CloudEvent: whoever reads it twice knows it by `source` and `id`."""
    return {
        "specversion": SPECVERSION,
        "id": str(event.sequence),
        "source": f"urn:authfabric:publisher:{event.publisher}",
        "type": event.type.name,
        "time": datetime.fromtimestamp(event.time, UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": json_values(event.attributes),
    }


def read_cloud_event(data: bytes | str | Mapping[str, object]) -> CloudEvent:
    """A CloudEvent from its JSON. Raises InvalidEvent."""
    try:
        if isinstance(data, Mapping):
            event = msgspec.convert(data, CloudEvent)
        else:
            event = msgspec.json.decode(data, type=CloudEvent)
    except UNREADABLE as error:
        raise InvalidEvent("CloudEvent", f"cannot be read: {error}") from None
    if event.specversion != SPECVERSION:
        raise InvalidEvent("specversion", f"must be {SPECVERSION}, not `{event.specversion}`")
    return event
