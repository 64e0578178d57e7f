"""A broker on the bus: its configuration, endpoints, calls, stores and metrics."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pubsub_core.server.config import LEASE_SECONDS, Serving
    from pubsub_core.server.metrics import BrokerMetrics, BrokerVitals
    from pubsub_core.server.policy_watch_service import OVERTIME
    from pubsub_core.server.service import BrokerService, serve_broker
    from pubsub_core.server.table_store import TableStore
    from pubsub_core.server.type_store import TypeStore

__all__ = [
    "LEASE_SECONDS", "OVERTIME", "BrokerMetrics", "BrokerService", "BrokerVitals", "Serving", "TableStore",
    "TypeStore", "serve_broker",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".metrics": "BrokerMetrics BrokerVitals",
        ".service": "BrokerService serve_broker",
        ".config": "LEASE_SECONDS Serving",
        ".policy_watch_service": "OVERTIME",
        ".table_store": "TableStore",
        ".type_store": "TypeStore",
    },
)
