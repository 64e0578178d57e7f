"""A dead fabric costs microseconds, and is found again as soon as it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from authz import Decision, Reason, Request
from pdp.replica.service import CannotDecide
from pep.asking.circuit_breaker import Circuit
from tests.deciders import Readers
from tests.pep.fabric import asking, serving
from tests.recorder import recorder
from tests.waiting import eventually


class TestRules:
    def test_it_is_closed_until_a_question_fails(self):
        circuit = Circuit()
        assert not circuit.is_open(100.0)

    def test_it_stays_closed_while_replicas_are_heard(self):
        circuit = Circuit()
        circuit.heard(100.0, ttl=3.0)
        circuit.failed()
        assert not circuit.is_open(103.0)
        assert circuit.is_open(103.1)

    def test_an_answer_closes_it(self):
        circuit = Circuit()
        circuit.failed()
        circuit.answered(100.0)
        assert not circuit.is_open(100.01)
        assert not circuit.failing

    def test_it_stays_closed_while_replicas_answer_that_they_cannot_decide(self):
        circuit = Circuit()
        circuit.answered(100.0)
        circuit.failed()
        assert not circuit.is_open(103.4)
        assert circuit.is_open(103.6)

    def test_an_announcement_closes_it(self):
        circuit = Circuit()
        circuit.failed()
        circuit.heard(100.01, ttl=3.0)
        assert not circuit.is_open(100.02)

    def test_after_a_reset_it_is_closed_until_the_grace_is_over_and_a_question_fails_again(self):
        circuit = Circuit()
        circuit.failed()
        circuit.reset(100.0, grace=5.0)
        assert not circuit.is_open(105.01)
        circuit.failed()
        assert not circuit.is_open(105.0)
        assert circuit.is_open(105.01)

    def test_a_shorter_lifetime_does_not_take_back_a_longer_one(self):
        circuit = Circuit()
        circuit.heard(100.0, ttl=3.0)
        circuit.heard(100.0, ttl=1.0)
        circuit.failed()
        assert not circuit.is_open(102.0)


class Leased(Readers):
    """Decides while it has a lease."""

    leased = False

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        if not self.leased:
            raise CannotDecide("no lease", Reason.STALE)
        return await super().decide_many(requests)


async def test_a_replica_that_gets_its_lease_back_is_waited_for(server):
    decider = Leased()
    async with serving(server.url, decider, able=lambda: decider.leased), asking(server.url) as pep:
        assert (await pep.check("alice", "/x", "read", deadline=0.2)).reason is Reason.STALE
        asked = asyncio.create_task(pep.check("alice", "/x", "read", deadline=60.0))
        await eventually(lambda: pep.asker.open or asked.done())
        decider.leased = True
        assert (await asked).allowed


async def test_a_fabric_without_replicas_is_asked_once_and_found_when_it_is_there(server, caplog):
    async with recorder(server.url) as wire, asking(wire.url, deadline=30.0) as pep:
        denied = [await pep.check("alice", "/x", "read") for _ in range(1000)]
        assert {decision.reason for decision in denied} == {Reason.NO_PDP}
        assert {decision.detail for decision in denied} == {"no PDP serves `/x`"}
        assert bytes(wire.said).count(b"PUB af.ask.") == 1
        async with serving(server.url, Readers()):
            await eventually(lambda: len(pep.asker.scopes))
            assert await pep.check("alice", "/x", "read") == Decision(True, policies=("readers",))
        assert not pep.asker.circuit.failing
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each for each in said if "heard of" in each] == [
        "asking in `default`: no PDP is heard of: requests are denied",
        "asking in `default`: PDPs are heard of again",
    ]


async def test_while_nobody_is_there_the_probes_are_not_the_questions_of_users(server):
    async with recorder(server.url) as wire, asking(wire.url, deadline=0.2) as pep:
        assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
        asked = bytes(wire.said).count(b"PUB af.scopes.who")
        await eventually(lambda: bytes(wire.said).count(b"PUB af.scopes.who") > asked + 1)
        began = bytes(wire.said).count(b"PUB af.ask.")
        assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
        assert bytes(wire.said).count(b"PUB af.ask.") == began
