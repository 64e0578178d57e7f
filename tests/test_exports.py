"""The public surface: what is named here stays; everything else may change."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

SURFACE = {
    "authfabric": "AccessDenied Connection Decision Enforcer Entity EventClient EventType Identity Request"
    " SyncEnforcer",
    "authz": "AuthFabricError Basis Decision DecisionPoint Entity Identity Inference InvalidRequest PublicKey Reason"
    " Request",
    "bus": "BusError Connection NatsServer NoResponders NotConnected ReplyTimeout Scope cluster",
    "pdp": "Bundle BundleRefused Engine InvalidPolicies PolicyPoint PolicySet Replica read_folder",
    "pep": "UNVERIFIED AccessDenied AuditRules Enforcer ExplanationRefused InvalidRequest LeaseRules NoResponders"
    " NobodyTrusted NotConnected NotOnBus Recycling ReplyTimeout ScopeExpired ScopeRefused ScopeUnavailable SearchQuery"
    " SearchRefused Strategy SyncEnforcer",
    "pubsub_core": "AttributeType CredentialRefused Event Place ProfileRefused"
    " Delivered DurableEvent DurableRefused DurableSubscriber EventClient EventType"
    " EventsMissed Gap GapReason InvalidEvent InvalidFilter NoBroker NotKept Publisher Refused"
    " ReplayIncomplete Replayed SessionLost Subscriber TypeRefused UnknownType",
    "sdp_cache": "LeaseRules Recycler Recycling SecondaryPoint Snapshot SnapshotRefused Step",
    "spark_eval": "Diff EvaluationError Review SparkOptions compare_policies compare_seen decide open_session"
    " register_decide",
}


@pytest.mark.parametrize("package", SURFACE)
def test_a_package_exports_what_users_need_and_nothing_else(package: str):
    module = import_module(package)
    assert sorted(module.__all__) == sorted(SURFACE[package].split())
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", SURFACE)
def test_a_name_that_is_not_exported_is_an_attribute_error(package: str):
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = import_module(package).Nonsense


def test_the_common_names_are_those_of_their_packages():
    import authfabric
    import pep
    import pubsub_core

    assert authfabric.Enforcer is pep.Enforcer
    assert authfabric.EventClient is pubsub_core.EventClient


@pytest.mark.parametrize(
    ("package", "heavy"),
    [
        ("authfabric", ["authz", "bus", "pdp", "pubsub_core", "pyspark"]),
        ("pdp", ["pyspark", "py_abac", "pdp.replica"]),
        (
            "pubsub_core",
            ["pubsub_core.broker", "pubsub_core.server", "sqlalchemy", "pdp", "prometheus_client"],
        ),
        ("spark_eval", ["pyspark", "pandas", "pyarrow"]),
    ],
)
def test_importing_a_package_loads_none_of_what_only_some_need(package: str, heavy: list[str]):
    program = f"import sys, {package}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
