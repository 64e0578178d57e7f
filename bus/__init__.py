"""The message bus: an embedded NATS server, connections that survive faults, subjects, envelopes and ask."""

from bus.errors import BusError, NoResponders, NotConnected, ReplyTimeout
from bus.nats import Connection
from bus.server import NatsServer, cluster
from bus.wire import Scope

__all__ = [
    "BusError", "Connection", "NatsServer", "NoResponders", "NotConnected", "ReplyTimeout", "Scope",
    "cluster",
]  # fmt: skip
