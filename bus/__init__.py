"""The message bus: an embedded NATS server, connections that survive faults, subjects, envelopes and ask."""

from bus.connection import Connection
from bus.errors import BusError, NoResponders, NotConnected, ReplyTimeout
from bus.scopes import Scope
from bus.server import NatsServer, cluster

__all__ = [
    "BusError",
    "Connection",
    "NatsServer",
    "NoResponders",
    "NotConnected",
    "ReplyTimeout",
    "Scope",
    "cluster",
]
