"""What a PEP counts, in the form Prometheus collects: `REGISTRY.register(EnforcerMetrics(pep))`."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pep.asking import Asker
from pep.enforcer import Enforcer
from pep.trust import Authenticity, Refusal


class EnforcerMetrics(Collector):
    """How asking goes, and what was tried against it."""

    def __init__(self, pep: Enforcer) -> None:
        self._pep = pep

    def collect(self) -> Iterable[Metric]:
        audit, secondary = self._pep.audit, self._pep.secondary
        decisions = CounterMetricFamily(
            "authfabric_pep_decisions",
            "Decisions by how they were found, effect and reason.",
            labels=["how", "effect", "reason"],
        )
        for (how, allowed, reason), count in self._pep.outcomes.all().items():
            decisions.add_metric([how, "allow" if allowed else "deny", str(reason)], count)
        yield decisions
        if self._pep.on_bus:
            yield from self._asking(self._pep.asker)
        if secondary is not None and secondary.follows:
            lag = secondary.feed.lag
            yield GaugeMetricFamily("authfabric_policy_lag", "Releases newer than the one in force.", lag)
        if secondary is not None and secondary.learner is not None:
            learner = secondary.learner
            yield CounterMetricFamily("authfabric_sdp_learned", "Answers to others learned.", learner.learned)
            yield _by_reason(
                "authfabric_sdp_refused_lessons", "Answers not learned.", learner.refused.items()
            )
        if audit is not None:
            dropped = audit.trail.dropped
            yield CounterMetricFamily("authfabric_audit_dropped", "Decisions not recorded.", dropped)

    def _asking(self, asker: Asker) -> Iterable[Metric]:
        yield GaugeMetricFamily("authfabric_pep_open", "Questions that wait for an answer.", asker.open)
        yield asker.latencies.metric(
            "authfabric_pep_latency_seconds", "Time that questions waited for an answer, or in vain."
        )
        yield GaugeMetricFamily(
            "authfabric_pep_circuit_open",
            "Whether questions are denied at once, since no replica answers.",
            asker.circuit.is_open(monotonic()),
        )
        yield CounterMetricFamily("authfabric_pep_asked_again", "Questions asked again.", asker.asked_again)
        yield CounterMetricFamily(
            "authfabric_pep_invalid_answers", "Messages that were no answers.", asker.invalid_answers
        )
        if asker.authenticity is not None:
            yield from self._authenticity(asker.authenticity)

    @staticmethod
    def _authenticity(authenticity: Authenticity) -> Iterable[Metric]:
        refused = [
            (each, authenticity.refused[each]) for each in Refusal
        ]  # none too: or the first is no increase
        yield _by_reason("authfabric_pep_refused_answers", "Answers that do not count.", refused)
        yield CounterMetricFamily(
            "authfabric_pep_refused_introductions",
            "Chains of PDPs that no trusted key empowered.",
            authenticity.refused_introductions,
        )
        yield CounterMetricFamily(
            "authfabric_pep_refused_announcements",
            "Announcements that were forged, or too old.",
            authenticity.refused_announcements,
        )
        yield GaugeMetricFamily(
            "authfabric_pep_revocations_unread",
            "Whether what was revoked cannot be read, so that no new PDP is believed.",
            bool(authenticity.unread),
        )
        skews = GaugeMetricFamily(
            "authfabric_pep_clock_skew_seconds",
            "Seconds by which a PDP's clock is ahead of this one, where that is too much.",
            labels=["pdp"],
        )
        for key, ahead in authenticity.clocks.skews.items():
            skews.add_metric([str(key)], ahead)
        yield skews
        known = len(authenticity.deciders)
        yield GaugeMetricFamily("authfabric_pep_deciders", "PDPs known and trusted.", known)


def _by_reason(name: str, meaning: str, counts: Iterable[tuple[str, int]]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=["why"])
    for why, count in counts:
        family.add_metric([why], count)
    return family
