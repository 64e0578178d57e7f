"""Health, readiness and metrics of a replica over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bus.runtime import HealthTls, serve_vitals
from pdp.replica.service import PROBE_SECONDS, Replica

STALE_SECONDS = 3 * PROBE_SECONDS


def is_live(replica: Replica, now: float) -> bool:
    """Whether a message went through the bus and back lately: false when the loop or the bus is wedged."""
    return now - replica.probed_at < STALE_SECONDS


def is_ready(replica: Replica, now: float) -> bool:
    """Whether the replica should be given work."""
    return is_live(replica, now) and replica.connection.ready and replica.able and not replica.draining


class ReplicaMetrics(Collector):
    """The replica's own counters, in the form Prometheus collects."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def collect(self) -> Iterable[Metric]:
        replica = self._replica
        yield CounterMetricFamily("authfabric_pdp_decisions", "Questions answered.", replica.answered)
        outcomes = CounterMetricFamily(
            "authfabric_pdp_outcomes", "Decisions by effect and reason.", labels=["effect", "reason"]
        )
        for (allowed, reason), count in list(replica.outcomes.items()):
            outcomes.add_metric(["allow" if allowed else "deny", str(reason)], count)
        yield outcomes
        yield replica.latencies.metric(
            "authfabric_pdp_latency_seconds", "Time from a question's arrival to its answer."
        )
        yield CounterMetricFamily(
            "authfabric_pdp_shed", "Questions refused because of overload.", replica.shed
        )
        yield CounterMetricFamily(
            "authfabric_pdp_unreadable", "Messages that were no questions.", replica.refused
        )
        yield CounterMetricFamily(
            "authfabric_bus_dropped", "Hostile or malformed messages dropped.", replica.connection.dropped
        )
        yield CounterMetricFamily("authfabric_bus_reconnects", "Reconnects.", replica.connection.reconnects)
        yield CounterMetricFamily(
            "authfabric_pdp_expired", "Questions whose asker no longer waited.", replica.expired
        )
        yield GaugeMetricFamily(
            "authfabric_pdp_queue", "Questions taken and not yet answered.", replica.queued
        )


@dataclass(slots=True)
class ReplicaVitals:
    """How a replica is, now; before there is one, the process lives and is not ready."""

    replica: Replica | None = None

    def live(self) -> bool:
        return self.replica is None or is_live(self.replica, monotonic())

    def ready(self) -> bool:
        return self.replica is not None and is_ready(self.replica, monotonic())


def serve_health(
    replica: Replica,
    port: int,
    host: str = "127.0.0.1",
    more: Iterable[Collector] = (),
    tls: HealthTls | None = None,
) -> AbstractContextManager[int]:
    """Serve a replica's /healthz, /readyz and /metrics; gives the port, which the system may have chosen (0).

    `more` are counted besides the replica's own counters.
    """
    return serve_vitals(ReplicaVitals(replica), (ReplicaMetrics(replica), *more), port, host, tls)
