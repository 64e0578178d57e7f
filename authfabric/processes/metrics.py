"""What access control services and key managers count, in the form Prometheus collects."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pdp.access import AccessService
from pubsub_core.key_groups import KeyManager


class AccessMetrics(Collector):
    """Whom an access control service has let in."""

    def __init__(self, access: AccessService) -> None:
        self._access = access

    def collect(self) -> Iterable[Metric]:
        access = self._access
        yield CounterMetricFamily("authfabric_access_admitted", "Connections let in.", access.admitted)
        yield CounterMetricFamily("authfabric_access_refused", "Connections refused.", access.refused)
        yield GaugeMetricFamily(
            "authfabric_access_revocations_age_seconds",
            "Seconds since the revocations were last read to their end.",
            monotonic() - access.revocations_read_at,
        )


class ManagerMetrics(Collector):
    """What a manager of key groups has given."""

    def __init__(self, manager: KeyManager) -> None:
        self._manager = manager

    def collect(self) -> Iterable[Metric]:
        manager = self._manager
        yield CounterMetricFamily(
            "authfabric_keys_answered", "Requests for keys that were granted.", manager.answered
        )
        yield CounterMetricFamily("authfabric_keys_refused", "Requests for keys refused.", manager.refused)
        yield GaugeMetricFamily(
            "authfabric_keys_problem", "Whether something is in the way of the key groups.", manager.troubled
        )
