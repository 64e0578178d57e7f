"""The message bus: an embedded NATS server, connections that survive faults, subjects, envelopes and ask."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from bus.errors import BusError, NoResponders, NotConnected, ReplyTimeout

if TYPE_CHECKING:
    from bus.nats import Connection
    from bus.server import NatsServer, cluster
    from bus.wire import Scope

__all__ = [
    "BusError", "Connection", "NatsServer", "NoResponders", "NotConnected", "ReplyTimeout", "Scope",
    "cluster",
]  # fmt: skip

__getattr__ = lazily(__name__, {".nats": "Connection", ".server": "NatsServer cluster", ".wire": "Scope"})
