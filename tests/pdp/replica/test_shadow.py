"""A shadow is silent while the engine is right, and raises an alarm with the full case when it is not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Entity, Request
from bus.wire import Alarm, Unpack
from bus.wire.subjects import alarms
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet
from pdp.replica.policy_point import PolicyPoint
from pdp.replica.shadow import Divergence, Judge
from pdp.replica.shadow_service import WAITING, Shadow, alarm_on
from tests.pdp.cases import Cases
from tests.waiting import eventually

READ = "- {uid: readers, effect: allow, targets: {action_id: read}, rules: {}}\n"
MANIFEST = File("bundle.yaml", "provided: []")


def policies(text: str, *more: File) -> PolicySet:
    return PolicySet.read(Bundle.of([File("p.yaml", text), *more]))


class Faulty:
    """An engine that allows whatever is asked of the secret."""

    def __init__(self, engine) -> None:
        self._engine = engine
        self.epoch = engine.epoch

    async def decide_many(self, requests) -> list[Decision]:
        return [
            Decision(True, policies=("oops",), epoch=self.epoch) if each.object.id == "/secret" else decision
            for each, decision in zip(requests, await self._engine.decide_many(requests), strict=True)
        ]


SECRET = Request.of(Entity("eve", {"age": 7}), "/secret", "write", {"ip": "10.0.0.1"})


async def test_a_faulty_engine_raises_an_alarm_with_the_full_case():
    found: list[Divergence] = []
    async with Shadow(1.0, found.append, effort=1.0) as shadow:
        rules = policies(READ)
        point = PolicyPoint(rules, 7, observe=shadow.watch(rules))
        point.engine = Faulty(point.engine)
        await point.decide_many([Request.of("ann", "/x", "read"), SECRET, Request.of("ann", "/x", "write")])
        await shadow.drain()
    (case,) = found
    assert (case.against, case.request) == ("reference", SECRET)
    assert (case.decision.policies, case.decision.epoch) == (("oops",), 7)
    assert not case.other.allowed
    assert (shadow.compared, shadow.differences) == (3, 1)


async def test_the_same_kind_of_difference_is_counted_but_alarms_once():
    found: list[Divergence] = []
    async with Shadow(1.0, found.append, effort=1.0) as shadow:
        rules = policies(READ)
        point = PolicyPoint(rules, observe=shadow.watch(rules))
        point.engine = Faulty(point.engine)
        await point.decide_many([SECRET] * 5)
        await shadow.drain()
    assert (len(found), shadow.differences) == (1, 5)


async def test_only_a_share_is_taken_and_what_is_too_much_is_dropped():
    rules = policies(READ)
    requests = [Request.of("ann", "/x", "read")] * (2 * WAITING)
    decisions = [Decision(True, policies=("readers",))] * len(requests)
    none, some, all_ = (Shadow(share, print) for share in (0.0, 0.1, 1.0))
    for shadow in (none, some, all_):
        shadow.watch(rules)(requests, decisions)
    assert none._queue.qsize() == 0
    assert 0 < some._queue.qsize() < WAITING
    assert (all_._queue.qsize(), all_.dropped) == (WAITING, WAITING)


async def test_the_alarm_goes_to_the_log_and_to_the_bus(bus, caplog):
    heard: list[Alarm] = []
    await bus.listen(alarms("shop"), lambda s, r, data, h: heard.append(Unpack(Alarm)(data)))
    wrong, right = Decision(True, policies=("oops",), epoch=7), Decision(False, epoch=7)
    alarm_on(bus, "shop", "pdp-1")(Divergence("reference", SECRET, wrong, right))
    await eventually(lambda: heard)
    assert heard == [Alarm("pdp-1", "shop", "reference", SECRET, wrong, right)]
    assert "eve" in caplog.text
    assert "the engine says allow (policy: oops), reference says deny" in caplog.text


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 100_000))
def test_of_a_right_engine_nothing_is_reported(seed):
    cases = Cases(seed)
    rules = policies(json.dumps(cases.policies(8)))
    judge, engine = Judge(rules), rules.engine()
    for request in cases.requests(20):
        assert list(judge.divergences(request, engine.evaluate(request))) == []


def test_where_the_reference_itself_differs_from_py_abac_that_is_told_apart():
    # A boolean is no number here, and is one for py-abac: a difference on purpose, and so a good example.
    rule = "{uid: a, effect: allow, targets: {}, rules: {context: {$.count: {condition: Gt, value: 0}}}}"
    rules = policies("- " + rule)
    request = Request.of("ann", "/x", "read", {"count": True})
    (case,) = Judge(rules).divergences(request, rules.engine().evaluate(request))
    assert (case.against, case.decision.allowed, case.other.allowed) == ("py-abac", False, True)


def test_roles_and_labels_are_judged_with_the_rest(caplog):
    rules = policies(READ, File("r.oasis", 'role boss\nboss |- privilege(write, "**")'))
    boss = Request.of(Entity("ann", {"roles": ["boss"]}), "/x", "write")
    decision = rules.engine().evaluate(boss)
    assert decision.allowed
    assert list(Judge(rules).divergences(boss, decision)) == []


def test_policies_that_py_abac_cannot_read_are_compared_with_the_reference(caplog):
    rule = "{uid: a, effect: allow, targets: {}, rules: {context: {$.n: {condition: Exists}}}}"
    rules = policies("- " + rule.replace("$.n", "$.in"))
    request = Request.of("ann", "/x", "read", {"in": 1})
    assert list(Judge(rules).divergences(request, rules.engine().evaluate(request))) == []
    (case,) = Judge(rules).divergences(request, Decision(False))
    assert case.against == "reference"


@pytest.mark.parametrize("module", ["authfabric.processes.pdp_process", "pdp.replica.metrics"])
def test_those_who_do_not_shadow_do_not_load_py_abac(module):
    code = f"import sys, {module}; sys.exit('py_abac' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
