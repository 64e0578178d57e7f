"""How a broker is and what it has done, in the form Prometheus collects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bus.nats import SILENT_SECONDS
from pubsub_core.delivery import Counts
from pubsub_core.events import GapReason
from pubsub_core.server.service import BrokerService

_CALLS_REFUSED = ("bus", "credential", "durable", "permission", "request", "session", "signature", "type")
_REFUSED = ("clock", "history", "keys", "permission", "restriction", "size", "type")
_DROPPED = ("forged", "replayed", "untrusted", "overflowed", "skewed")


@dataclass(frozen=True, slots=True)
class BrokerVitals:
    """How a broker is, now."""

    service: BrokerService

    def live(self) -> bool:
        """Whether a message went out on each of its connections and came back on the other, lately."""
        return monotonic() - self.service.probes.heard_at < SILENT_SECONDS

    def ready(self) -> bool:
        """Whether events go through it: it is connected, and not held because of policies it does not have."""
        return self.live() and self.service.probes.connected and not self.service.broker.held


class BrokerMetrics(Collector):
    """A broker's own counters."""

    def __init__(self, service: BrokerService) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        counts = self._service.broker.counts
        yield from _events(counts)
        refused = {reason: counts.refused[reason] for reason in _REFUSED}
        yield _labelled(
            "authfabric_broker_refused", "Events of clients not published, by why.", "reason", refused
        )
        dropped = {name: getattr(counts, name) for name in _DROPPED}
        yield _labelled(
            "authfabric_broker_dropped", "Events and messages dropped, by why.", "reason", dropped
        )
        gaps = {str(reason): counts.gaps[reason] for reason in GapReason}
        yield _labelled(
            "authfabric_broker_gaps", "Gaps that subscribers were told of, by why.", "reason", gaps
        )
        calls = {reason: counts.calls_refused[reason] for reason in _CALLS_REFUSED}
        yield _labelled(
            "authfabric_broker_calls_refused", "Calls of clients that were refused, by why.", "reason", calls
        )
        proofs = {"yes": counts.verified, "no": counts.unverified}
        yield _labelled(
            "authfabric_broker_proofs",
            "Proofs of other brokers' events, by whether verified.",
            "verified",
            proofs,
        )
        judged = self._service.broker.setting.rules.counts
        rules = {name: getattr(judged, name) for name in ("passed", "restricted", "failed")}
        yield _labelled(
            "authfabric_broker_rules", "Events judged by rules, by what came of them.", "outcome", rules
        )
        yield from self._gauges()

    def _gauges(self) -> Iterable[Metric]:
        service, broker = self._service, self._service.broker
        yield GaugeMetricFamily("authfabric_broker_peers", "Other brokers that are there.", len(broker.peers))
        skews = GaugeMetricFamily(
            "authfabric_broker_clock_skew_seconds",
            "By how much the clock of a broker is ahead that is ignored for it.",
            labels=["broker"],
        )
        for name, seconds in broker.presence.clocks.skews.items():
            skews.add_metric([name], seconds)
        yield skews
        yield GaugeMetricFamily("authfabric_broker_sessions", "Clients connected.", len(broker.sessions))
        yield GaugeMetricFamily(
            "authfabric_broker_durables",
            "Durable subscriptions that this broker delivers.",
            len(service.durables),
        )
        yield CounterMetricFamily(
            "authfabric_broker_reread",
            "Parcels read again for subscriptions that were behind.",
            service.durables.rereading.count,
        )
        if service.following is not None:
            lag = service.following.lag
            yield GaugeMetricFamily("authfabric_policy_lag", "Releases newer than the one in force.", lag)
        yield GaugeMetricFamily("authfabric_broker_held", "Whether nothing is delivered now.", broker.held)
        doubted = broker.setting.rules.context.doubted
        yield GaugeMetricFamily(
            "authfabric_broker_doubted", "Shared fluents that others have not answered about.", len(doubted)
        )
        yield GaugeMetricFamily(
            "authfabric_broker_epoch", "The release that everything is granted by.", service.claims.epoch
        )


def _events(counts: Counts) -> Iterable[Metric]:
    yield CounterMetricFamily("authfabric_broker_published", "Events taken from clients.", counts.published)
    yield CounterMetricFamily("authfabric_broker_delivered", "Events sent to clients.", counts.delivered)
    yield CounterMetricFamily(
        "authfabric_broker_forwarded", "Events that the stream has for other brokers.", counts.forwarded
    )
    yield CounterMetricFamily(
        "authfabric_broker_received", "Events accepted from other brokers.", counts.received
    )
    yield CounterMetricFamily(
        "authfabric_broker_withheld",
        "Events kept back from subscribers because a restriction excludes them.",
        counts.withheld,
    )
    yield CounterMetricFamily(
        "authfabric_broker_unreadable",
        "Events kept back because this broker has no keys for anything of them.",
        counts.unreadable,
    )
    yield CounterMetricFamily(
        "authfabric_broker_restricted",
        "Events that were changed, or shown in part, because a restriction says so.",
        counts.restricted,
    )
    yield CounterMetricFamily(
        "authfabric_broker_lost", "Parcels discarded by the stream before they were read here.", counts.lost
    )


def _labelled(name: str, meaning: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
