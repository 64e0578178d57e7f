"""What following, looking up, shadowing and signing count, in the form Prometheus collects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from bus.feeds import ReleaseFollower
from bus.identity import FollowedKeys
from pdp.attributes import CachingProvider
from pdp.replica.shadow_service import Shadow
from pdp.replica.signing_service import DecisionSigner


class PolicyMetrics(Collector):
    """Which policies are in force, and whether all is well with them."""

    def __init__(self, follower: ReleaseFollower) -> None:
        self._follower = follower

    def collect(self) -> Iterable[Metric]:
        follower = self._follower
        yield GaugeMetricFamily("authfabric_policy_epoch", "The release in force.", follower.epoch)
        yield GaugeMetricFamily(
            "authfabric_policy_lag", "Releases newer than the one in force.", follower.lag
        )
        yield GaugeMetricFamily(
            "authfabric_policy_problem",
            "Whether something is in the way of the newest policies.",
            bool(follower.problem),
        )
        yield CounterMetricFamily("authfabric_policy_refused", "Releases refused.", follower.refusals)
        released = follower.applied
        info = InfoMetricFamily("authfabric_policy_release", "The release in force, by hash and signer.")
        if released is not None:
            info.add_metric([], {"hash": released.hash, "signer": str(released.signer)})
        yield info
        yield GaugeMetricFamily(
            "authfabric_policy_lease_seconds",
            "Seconds left of the lease on the release in force; negative when it has ended.",
            -follower.stale_for,
        )
        trusted = follower.member.trusted
        yield GaugeMetricFamily(
            "authfabric_trust_unreadable",
            "Whether the file of trusted keys cannot be read, so that those read last still count.",
            isinstance(trusted, FollowedKeys) and bool(trusted.problem),
        )


class ProviderMetrics(Collector):
    """How often attributes were looked up, and in vain."""

    def __init__(self, providers: Sequence[CachingProvider]) -> None:
        self._providers = providers

    def collect(self) -> Iterable[Metric]:
        asked = CounterMetricFamily(
            "authfabric_provider_lookups", "Questions to attribute providers.", labels=["provider"]
        )
        failed = CounterMetricFamily(
            "authfabric_provider_failures", "Questions that were not answered.", labels=["provider"]
        )
        behind = GaugeMetricFamily(
            "authfabric_provider_unreadable",
            "Whether a file cannot be read, so that what it says is unavailable.",
            labels=["provider"],
        )
        for each in self._providers:
            asked.add_metric([each.name], each.lookups)
            failed.add_metric([each.name], each.failures)
            behind.add_metric([each.name], each.behind)
        return (asked, failed, behind)


class ShadowMetrics(Collector):
    """How many decisions were compared with what they should be."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def collect(self) -> Iterable[Metric]:
        shadow = self._shadow
        yield CounterMetricFamily("authfabric_shadow_compared", "Decisions made again.", shadow.compared)
        yield CounterMetricFamily(
            "authfabric_shadow_differences", "Decisions that were not as they should be.", shadow.differences
        )
        yield CounterMetricFamily(
            "authfabric_shadow_dropped", "Samples for which there was no time.", shadow.dropped
        )


class SignerMetrics(Collector):
    """How many decisions were signed for others to verify."""

    def __init__(self, signer: DecisionSigner) -> None:
        self._signer = signer

    def collect(self) -> Iterable[Metric]:
        signer = self._signer
        yield CounterMetricFamily("authfabric_pdp_signed", "Decisions signed.", signer.signed)
        yield CounterMetricFamily(
            "authfabric_pdp_unsigned", "Decisions not signed for want of time.", signer.dropped
        )
