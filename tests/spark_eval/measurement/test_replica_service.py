from __future__ import annotations

import numpy as np
import pytest

from authz import Basis, Entity, Request
from bus.runtime import ProcessFailed
from bus.wire.envelope import pack
from bus.wire.messages import Announcement, Questions
from spark_eval.experiment.cell import Population
from spark_eval.experiment.sampling import draw_grants
from spark_eval.measurement.fabric_service import (
    make_request,
    replica,
    role_policies,
    run_fabric,
)
from spark_eval.measurement.replica_service import NUMBER, RUN, ReplicaTask, Schedule, role_engine

SCHEDULE = Schedule({"a": [(2, 4), (7, 8)], "b": []})


def question(run, number):
    return Request.of("alice", "/x", "read", {RUN: run, NUMBER: number})


def test_a_replica_fails_within_its_failures_only():
    assert [SCHEDULE.fails("a", number) for number in range(10)] == [n in (2, 3, 7) for n in range(10)]
    assert not any(SCHEDULE.fails("b", number) for number in range(10))


@pytest.mark.parametrize(("run", "number"), [("c", 2), ("a", "2"), (None, 2), ("a", None), (["a"], 2)])
def test_what_belongs_to_no_run_never_fails(run, number):
    assert not SCHEDULE.fails(run, number)


def test_questions_that_fall_into_a_failure_are_lost():
    assert SCHEDULE.loses(pack(Questions([question("a", 2)])))
    assert not SCHEDULE.loses(pack(Questions([question("a", 4)])))


def test_other_messages_are_never_lost():
    assert not SCHEDULE.loses(pack(Announcement(["broadcast"], 1.0)))
    assert not SCHEDULE.loses(b"")


def test_what_came_over_nats_is_counted_by_run():
    schedule = Schedule({"a": [(0, 1)]})
    assert schedule.loses_delivered(pack(Questions([question("a", 0)])))
    assert not schedule.loses_delivered(pack(Questions([question("b", 0)])))
    assert not schedule.loses_delivered(b"")
    assert schedule.delivered == {"a": 1, "b": 1}


def test_the_policies_allow_what_the_roles_are_granted():
    population = Population(objects=12, subjects=6, roles=3)
    grants = draw_grants(population, seed=1)
    engine = role_engine(role_policies(grants))
    asked = [(subject, thing) for subject in range(6) for thing in range(12)]
    decisions = [engine.evaluate(make_request(population, *each, {})) for each in asked]
    assert [d.allowed for d in decisions] == [bool(grants[s % 3, thing]) for s, thing in asked]
    assert all(d.decided for d in decisions)
    assert {d.basis for d in decisions if d.allowed} == {Basis.ROLES}


def test_a_role_that_is_granted_nothing_needs_no_policy():
    engine = role_engine(role_policies(np.array([[False, False], [True, False]])))
    population = Population(objects=2, subjects=2, roles=2)
    assert [engine.evaluate(make_request(population, each, 0, {})).allowed for each in (0, 1)] == [
        False,
        True,
    ]


def test_whoever_has_no_role_is_denied():
    population = Population(objects=12, subjects=6, roles=3)
    engine = role_engine(role_policies(draw_grants(population, seed=1)))
    assert not engine.evaluate(Request.of(Entity("nobody"), "/objects/1", "read")).allowed


POLICIES = role_policies(np.array([[True]]))


async def test_a_replica_that_cannot_start_says_why():
    with pytest.raises(ProcessFailed, match=r"not connected to `nats://127\.0\.0\.1:1`"):
        async with replica(ReplicaTask("nats://127.0.0.1:1", ["broadcast"], POLICIES)):
            pytest.fail("the block must not begin")


async def test_of_several_replicas_that_cannot_start_one_is_named_and_none_is_left():
    with pytest.raises(ProcessFailed, match="did not start"):
        async with run_fabric(
            [ReplicaTask("", ["broadcast"], policies) for policies in (POLICIES, "no rule", "no rule")]
        ):
            pytest.fail("the block must not begin")
