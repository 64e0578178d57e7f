"""The secure event service: typed, owned, restricted events governed by the fabric."""

from pubsub_core.client import Delivered, EventClient, Publisher, Replayed, Subscriber
from pubsub_core.errors import (
    InvalidEvent,
    InvalidFilter,
    NoBroker,
    NotKept,
    Refused,
    ReplayIncomplete,
    SessionLost,
    TypeRefused,
    UnknownType,
)
from pubsub_core.event_type import AttributeType, EventType

__all__ = [
    "AttributeType",
    "Delivered",
    "EventClient",
    "EventType",
    "InvalidEvent",
    "InvalidFilter",
    "NoBroker",
    "NotKept",
    "Publisher",
    "Refused",
    "ReplayIncomplete",
    "Replayed",
    "SessionLost",
    "Subscriber",
    "TypeRefused",
    "UnknownType",
]
