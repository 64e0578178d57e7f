"""The secure event service: typed, owned, restricted events governed by the fabric."""

from pubsub_core.client import (
    Delivered,
    DurableEvent,
    DurableSubscriber,
    Event,
    EventClient,
    Place,
    ProfileRefused,
    Publisher,
    Replayed,
    Subscriber,
)
from pubsub_core.errors import (
    CredentialRefused,
    DurableRefused,
    EventsMissed,
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
from pubsub_core.events import Gap, GapReason
from pubsub_core.types import AttributeType, EventType

__all__ = [
    "AttributeType", "CredentialRefused", "Delivered", "DurableEvent", "DurableRefused", "DurableSubscriber", "Event",
    "EventClient", "EventType", "EventsMissed", "Gap", "GapReason", "InvalidEvent", "InvalidFilter", "NoBroker",
    "NotKept", "Place", "ProfileRefused", "Publisher", "Refused", "ReplayIncomplete", "Replayed", "SessionLost",
    "Subscriber", "TypeRefused", "UnknownType",
]  # fmt: skip
