"""A broker on the bus: its configuration, endpoints, calls and metrics."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pubsub_core.server.config import LEASE_SECONDS, Certificates, Serving
    from pubsub_core.server.metrics import BrokerMetrics, BrokerVitals
    from pubsub_core.server.policy_watch_service import OVERTIME
    from pubsub_core.server.service import BrokerService, serve_broker

__all__ = [
    "LEASE_SECONDS", "OVERTIME", "BrokerMetrics", "BrokerService", "BrokerVitals", "Certificates",
    "Serving", "serve_broker",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".metrics": "BrokerMetrics BrokerVitals",
        ".service": "BrokerService serve_broker",
        ".config": "LEASE_SECONDS Certificates Serving",
        ".policy_watch_service": "OVERTIME",
    },
)
