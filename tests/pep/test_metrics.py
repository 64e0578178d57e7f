"""A PEP counts what it decided by how it came to know, how long it waited, and whether it asks at all."""

from __future__ import annotations

from authz import Reason, Request
from pep import Enforcer
from pep.metrics import EnforcerMetrics
from tests.deciders import Readers
from tests.pep.fabric import asking, serving

READ, WRITE = Request.of("alice", "/x", "read"), Request.of("alice", "/x", "write")
POLICY = "- {uid: readers, effect: allow, rules: {}, targets: {action_id: read}}\n"


def measured(pep: Enforcer) -> dict[tuple[str, ...], float]:
    """What its metrics say: each value by the name of its sample and its labels."""
    samples = [each for metric in EnforcerMetrics(pep).collect() for each in metric.samples]
    return {(each.name, *each.labels.values()): each.value for each in samples}


async def test_recycled_decisions_are_counted_apart_from_those_asked_for():
    async with Enforcer.local(POLICY) as pep:
        for _ in range(3):
            await pep.check(READ)
        await pep.check_many([READ, WRITE, READ])
        assert {key: value for key, value in measured(pep).items() if value} == {
            ("authfabric_pep_decisions_total", "asked", "allow", "policy"): 1,
            ("authfabric_pep_decisions_total", "asked", "deny", "no-policy"): 1,
            ("authfabric_pep_decisions_total", "precise", "allow", "policy"): 4,
        }


async def test_what_other_ways_infer_is_counted_by_their_names():
    async with Enforcer.local(POLICY) as pep:
        await pep.check(READ)
        await pep.check("bob", "/y", "read")  # follows from the certificate of the first
        assert measured(pep)["authfabric_pep_decisions_total", "certificate", "allow", "policy"] == 1


async def test_who_recycles_nothing_counts_all_as_asked():
    async with Enforcer.local(POLICY, recycling=None) as pep:
        await pep.check(READ)
        await pep.check_many([READ, WRITE])
        await pep.check_anew(READ, 1.0)
        found = measured(pep)
    assert found["authfabric_pep_decisions_total", "asked", "allow", "policy"] == 3
    assert found["authfabric_pep_decisions_total", "asked", "deny", "no-policy"] == 1


async def test_questions_are_timed_and_an_open_circuit_is_told(own_server):
    async with asking(own_server.url, patient=True) as pep:
        async with serving(own_server.url, Readers()):
            assert (await pep.check(READ, deadline=20.0)).allowed
            await pep.check_many([READ, WRITE])
            found = measured(pep)
            assert found["authfabric_pep_latency_seconds_count",] == 3
            assert found["authfabric_pep_circuit_open",] == 0
        pep.asker.circuit._heard_until = 0.0  # as if its lifetime had passed
        decision = await pep.check(READ, deadline=0.2)
        assert decision.reason in {Reason.NO_PDP, Reason.TIMEOUT}
        found = measured(pep)
        assert found["authfabric_pep_latency_seconds_count",] == 4
        assert found["authfabric_pep_circuit_open",] == 1
        assert found["authfabric_pep_decisions_total", "asked", "deny", str(decision.reason)] == 1
