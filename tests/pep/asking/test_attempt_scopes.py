"""Questions follow scopes that vanish or become narrower, and leave nothing behind when they are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from authz import Decision, Reason, Request
from bus import Connection
from bus.wire.envelope import pack
from bus.wire.messages import Answers, unpack_questions
from bus.wire.scopes import Scope
from bus.wire.subjects import Mode, interest, question
from pdp.replica.service import CannotDecide
from pep import Strategy
from tests.deciders import Gated, Readers
from tests.pep.asking.test_attempts import DOMAIN, YES, nothing_is_left
from tests.pep.fabric import asking, serving, serving_unannounced, wiretap
from tests.waiting import eventually


class TestScopesThatVanish:
    async def test_the_questions_go_to_whoever_serves_them_otherwise(self, server):
        """The replica that announced the prefix is gone; one that serves the exact tuple was never announced."""
        async with Connection(server.url) as bus, asking(server.url) as pep:

            def answer(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                bus.send(reply, pack(Answers([YES] * len(unpack_questions(payload).requests))))

            for n in range(3):
                await bus.listen(interest(Mode.ANY, Scope.parse(f"tuple:alice,/sales/{n},read")), answer)
            await bus.flush()
            pep.asker.scopes.announce([Scope.parse("prefix:/sales")], 0.0, float("inf"))
            assert await pep.check_many([("alice", f"/sales/{n}", "read") for n in range(3)]) == [YES] * 3
            assert Scope.parse("prefix:/sales") not in pep.asker.scopes
            assert nothing_is_left(pep)

    async def test_for_a_while_somebody_is_expected_to_come_back(self, server):
        """Also by questions asked after the first one found nobody."""
        async with asking(server.url) as pep:
            pep.asker.scopes.announce([Scope.parse(DOMAIN)], 0.0, float("inf"))
            first = asyncio.create_task(pep.check("alice", "/1", "read"))
            await eventually(lambda: Scope.parse(DOMAIN) not in pep.asker.scopes)
            second = asyncio.create_task(pep.check("alice", "/2", "read"))
            await pep.asker.connection.flush()
            await pep.asker.connection.flush()
            assert not second.done()
            async with serving(server.url, Readers()):
                assert await first == YES
                assert await second == YES

    async def test_but_not_for_ever(self, server, monkeypatch):
        monkeypatch.setattr("pep.asking.asker.RETURN_GRACE", 0.05)
        async with asking(server.url, deadline=60.0) as pep:
            pep.asker.scopes.announce([Scope.parse(DOMAIN)], 0.0, float("inf"))
            assert (await pep.check("alice", "/1", "read")).reason is Reason.NO_PDP


class Unable(Readers):
    """Has nothing to decide by."""

    def __init__(self, reason: Reason) -> None:
        super().__init__()
        self.reason = reason

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        raise CannotDecide("not here", self.reason)


class TestNarrowerScopes:
    """A wide scope is announced by somebody who is of no help; a narrower one by nobody."""

    @pytest.mark.parametrize("strategy", list(Strategy))
    @pytest.mark.parametrize("trouble", ["silent", Reason.BUSY, Reason.STALE])
    async def test_whoever_serves_a_question_is_asked_in_the_end(self, server, trouble, strategy):
        wide = Gated() if trouble == "silent" else Unable(trouble)
        narrow = [f"object:/sales/{n}" for n in range(5)]
        async with (
            serving(server.url, wide),
            serving_unannounced(server.url, Readers(), *narrow),
            asking(server.url, DOMAIN, strategy=strategy) as pep,
        ):
            questions = [("alice", f"/sales/{n}", "read") for n in range(5)]
            assert await pep.check_many(questions) == [YES] * 5
            assert nothing_is_left(pep)
            if isinstance(wide, Gated):
                wide.gate.set()

    async def test_also_if_answers_usually_take_longer_than_there_is_time(self, server):
        wide = Gated()
        async with (
            serving(server.url, wide),
            serving_unannounced(server.url, Readers(), "object:/x"),
            asking(server.url, DOMAIN, patient=True, deadline=3.0) as pep,
        ):
            assert await pep.check("alice", "/x", "read") == YES
            wide.gate.set()

    async def test_a_question_that_is_answered_in_time_is_not_asked_there(self, server):
        async with (
            serving(server.url, Readers()),
            wiretap(server.url) as tap,
            asking(server.url, DOMAIN, patient=True) as pep,
        ):
            await pep.check("alice", "/x", "read")
            assert await tap.subjects(pep) == [question(Mode.ANY, Scope.parse(DOMAIN))]


class TestCancellation:
    async def test_a_caller_who_gives_up_harms_no_one_and_leaves_nothing(self, server):
        decider = Gated("readers")
        async with serving(server.url, decider), asking(server.url, DOMAIN) as pep:
            callers = [asyncio.create_task(pep.check("alice", f"/{n}", "read")) for n in range(20)]
            await decider.entered.wait()
            for caller in callers[::2]:
                caller.cancel()
            decider.gate.set()
            done = await asyncio.gather(*callers, return_exceptions=True)
            assert done[1::2] == [YES] * 10
            assert all(isinstance(each, asyncio.CancelledError) for each in done[::2])
            assert nothing_is_left(pep)

    async def test_when_all_give_up_the_questions_are_forgotten(self, server):
        decider = Gated()
        async with serving(server.url, decider), asking(server.url, DOMAIN, deadline=60.0) as pep:
            together = asyncio.create_task(pep.check_many([("alice", f"/{n}", "read") for n in range(300)]))
            await decider.entered.wait()
            together.cancel()
            await asyncio.wait([together])
            await eventually(lambda: nothing_is_left(pep))
            decider.gate.set()

    async def test_before_it_was_even_sent(self, server):
        async with serving(server.url, Readers()), asking(server.url, DOMAIN) as pep:
            answer = pep.asker.decide(Request.of("alice", "/x", "read"))
            answer.cancel()
            assert await pep.check("alice", "/y", "read") == YES
            await eventually(lambda: nothing_is_left(pep))

    async def test_a_late_answer_costs_nothing(self, server):
        decider = Gated()
        async with serving(server.url, decider) as replica, asking(server.url, DOMAIN) as pep:
            await pep.check("alice", "/x", "read", deadline=0.02)
            assert nothing_is_left(pep)
            decider.gate.set()
            await eventually(lambda: replica.queued == 0)
            await pep.asker.connection.flush()
            assert nothing_is_left(pep)
            assert pep.asker.connection.dropped == 0
