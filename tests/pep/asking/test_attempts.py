"""Questions travel together, are asked again and elsewhere, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from authz import Decision, Reason, Request
from bus import Connection
from bus.wire.envelope import MAX_BYTES, pack
from bus.wire.messages import Answers, unpack_questions
from bus.wire.scopes import Scope
from bus.wire.subjects import QUEUE, Mode, interest, question
from pep import Enforcer, Strategy
from pep.asking.attempts import MAX_COUNT
from tests.attacker import Attacker
from tests.deciders import Gated, Readers
from tests.pep.fabric import asking, serving, wiretap
from tests.waiting import eventually

YES = Decision(True, policies=("readers",))
DOMAIN = "domain:default"


def nothing_is_left(pep: Enforcer) -> bool:
    asker = pep.asker
    return (
        asker.open == 0
        and not asker.batches
        and not asker._filling
        and list(asker.connection._replies._expected) == [asker._inbox]
    )


class TestCoalescing:
    async def test_questions_of_one_turn_about_one_scope_travel_in_one_message(self, server):
        async with (
            serving(server.url, Readers(), "prefix:/sales"),
            wiretap(server.url) as tap,
            asking(server.url, "prefix:/sales", patient=True) as pep,
        ):
            answers = await asyncio.gather(
                *[pep.check(f"user{n}", f"/sales/{n}", "read") for n in range(100)]
            )
            assert answers == [YES] * 100
            await tap.subjects(pep)
            ((subject, questions),) = tap.heard
            assert subject == question(Mode.ANY, Scope.parse("prefix:/sales"))
            assert [r.object.id for r in questions.requests] == [f"/sales/{n}" for n in range(100)]

    async def test_each_scope_has_its_own_message(self, server):
        async with (
            serving(server.url, Readers(), "prefix:/sales", "object:/hr/x"),
            wiretap(server.url) as tap,
            asking(server.url, "prefix:/sales", "object:/hr/x", patient=True) as pep,
        ):
            things = ["/sales/1", "/hr/x", "/sales/2", "/hr/x"]
            await pep.check_many([("alice", thing, "read") for thing in things])
            assert sorted(await tap.subjects(pep)) == sorted(
                question(Mode.ANY, Scope.parse(text)) for text in ("prefix:/sales", "object:/hr/x")
            )

    async def test_questions_that_nobody_announced_go_each_on_its_own_subject(self, server):
        async with wiretap(server.url) as tap, asking(server.url, deadline=0.01) as pep:
            await pep.check_many([("alice", "/x", "read"), ("alice", "/x", "read"), ("bob", "/x", "read")])
            exact = [f"tuple:{name},/x,read" for name in ("alice", "bob")]
            assert set(await tap.subjects(pep)) == {question(Mode.ANY, Scope.parse(text)) for text in exact}
            assert len(tap.heard[0][1].requests) == 2

    async def test_a_message_holds_so_many_and_no_more(self, server):
        async with (
            serving(server.url, Readers()),
            wiretap(server.url) as tap,
            asking(server.url, DOMAIN, patient=True) as pep,
        ):
            await pep.check_many([("alice", f"/{n}", "read") for n in range(2 * MAX_COUNT + 7)])
            await tap.subjects(pep)
            assert [len(questions.requests) for _, questions in tap.heard] == [MAX_COUNT, MAX_COUNT, 7]

    async def test_questions_with_a_deadline_of_their_own_travel_together_too(self, server):
        async with (
            serving(server.url, Readers()),
            wiretap(server.url) as tap,
            asking(server.url, DOMAIN, patient=True) as pep,
        ):
            usual = pep.check_many([("alice", f"/{n}", "read") for n in range(10)])
            other = pep.check_many(
                [("bob", f"/{n}", "read") for n in range(10)], deadline=5.0, strategy="queue"
            )
            await asyncio.gather(usual, other)
            await tap.subjects(pep)
            assert [len(questions.requests) for _, questions in tap.heard] == [10, 10]

    async def test_a_lone_question_is_sent_in_the_same_turn(self, server):
        async with serving(server.url, Readers()), asking(server.url, DOMAIN, patient=True) as pep:
            answer = pep.asker.decide(Request.of("alice", "/x", "read"))
            await asyncio.sleep(0)
            assert pep.asker.open == 1
            assert await answer == YES


class TestStrategies:
    @contextlib.asynccontextmanager
    async def fabric(self, url: str, strategy: Strategy) -> AsyncIterator[tuple[list[Readers], Enforcer]]:
        deciders = [Readers(), Readers(), Readers()]
        async with contextlib.AsyncExitStack() as stack:
            for decider in deciders:
                await stack.enter_async_context(serving(url, decider))
            pep = await stack.enter_async_context(asking(url, DOMAIN, strategy=strategy, patient=True))
            yield deciders, pep

    async def test_flood_asks_all_and_takes_the_first_answer(self, server):
        async with self.fabric(server.url, Strategy.FLOOD) as (deciders, pep), wiretap(server.url) as tap:
            assert await pep.check("alice", "/x", "read") == YES
            await eventually(lambda: [len(each.asked) for each in deciders] == [1, 1, 1])
            assert await tap.modes(pep) == ["all"]

    @pytest.mark.parametrize("strategy", [Strategy.QUEUE, Strategy.HEDGE])
    async def test_queue_and_hedge_ask_one(self, server, strategy):
        async with self.fabric(server.url, strategy) as (deciders, pep), wiretap(server.url) as tap:
            for n in range(30):
                assert await pep.check("alice", f"/{n}", "read") == YES
            assert sum(len(each.asked) for each in deciders) == 30
            assert await tap.modes(pep) == ["any"] * 30

    async def test_a_call_may_choose_another(self, server):
        async with self.fabric(server.url, Strategy.HEDGE) as (_, pep), wiretap(server.url) as tap:
            await pep.check("alice", "/x", "read", strategy=Strategy.FLOOD)
            assert await tap.modes(pep) == ["all"]

    async def test_hedge_asks_one_more_when_the_answer_is_late(self, server):
        slow, quick = Gated(), Readers()
        async with serving(server.url, slow), wiretap(server.url) as tap, asking(server.url, DOMAIN) as pep:
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await slow.entered.wait()
            async with serving(server.url, quick):
                assert await asked == YES
                assert (await tap.modes(pep))[:2] == ["any", "any"]
                assert pep.asker.asked_again >= 1
                slow.gate.set()

    def test_hedge_asks_one_then_one_more_then_two_and_only_then_all(self):
        assert [len(Strategy.HEDGE.modes(attempts)) for attempts in range(3)] == [1, 1, 2]
        assert {mode for attempts in range(3) for mode in Strategy.HEDGE.modes(attempts)} == {Mode.ANY}
        assert [Strategy.HEDGE.modes(attempts) for attempts in (3, 9)] == [(Mode.ALL,)] * 2

    async def test_of_silent_replicas_four_are_asked_before_all_are(self, server):
        silent = Gated()
        async with serving(server.url, silent), wiretap(server.url) as tap, asking(server.url, DOMAIN) as pep:
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await eventually(lambda: len(tap.heard) >= 5)
            assert (await tap.modes(pep))[:5] == ["any", "any", "any", "any", "all"]
            silent.gate.set()
            await asked

    async def test_queue_asks_again_one_of_them(self, server):
        slow = Gated()
        async with (
            serving(server.url, slow),
            wiretap(server.url) as tap,
            asking(server.url, DOMAIN, strategy=Strategy.QUEUE) as pep,
        ):
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await eventually(lambda: len(tap.heard) == 3)
            slow.gate.set()
            assert (await asked).allowed
            assert set(await tap.modes(pep)) == {"any"}

    async def test_what_is_answered_late_is_not_asked_again_and_again(self, server):
        """A PDP that always needs long is waited for, also before the second attempt."""
        decider = Gated()
        async with (
            serving(server.url, decider),
            asking(server.url, DOMAIN, strategy=Strategy.QUEUE) as pep,
        ):
            pep.asker.hedge.seconds = 30.0
            asked = asyncio.create_task(pep.check("alice", "/x", "read"))
            await decider.entered.wait()
            (batch,) = pep.asker.batches
            assert batch._timer.when() - asyncio.get_running_loop().time() > 5.0
            decider.gate.set()
            assert (await asked).allowed

    async def test_only_what_is_still_open_is_asked_again(self, server):
        async with Connection(server.url) as bus, asking(server.url) as pep:

            def answer(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                requests = unpack_questions(payload).requests
                decisions = [YES if r.object.id == "/1" or len(requests) == 1 else None for r in requests]
                bus.send(reply, pack(Answers(decisions)))

            await bus.listen(interest(Mode.ANY, Scope.parse(DOMAIN)), answer, QUEUE)
            await bus.listen(interest(Mode.ALL, Scope.parse(DOMAIN)), answer)
            await bus.flush()
            pep.asker.scopes.announce([Scope.parse(DOMAIN)], 0.0, float("inf"))
            assert await pep.check_many([("alice", "/1", "read"), ("alice", "/2", "read")]) == [YES, YES]
            assert pep.asker.asked_again == 1
            assert nothing_is_left(pep)


class TestBusy:
    @pytest.mark.parametrize("strategy", list(Strategy))
    async def test_a_busy_replica_says_so_and_another_is_asked_at_once(self, server, strategy):
        stuck, free = Gated(), Readers()
        async with (
            serving(server.url, stuck, max_queue=1) as busy,
            asking(server.url, DOMAIN, strategy=strategy) as pep,
        ):
            pep.asker.hedge.seconds = 5.0  # not the hedge, but the busy answer makes it ask elsewhere
            blocking = asyncio.create_task(pep.check("alice", "/x", "read", strategy=Strategy.QUEUE))
            await eventually(lambda: busy.queued == 1)
            async with serving(server.url, free):
                answers = [await pep.check("alice", f"/{n}", "read") for n in range(30)]
                assert answers == [YES] * 30
                assert busy.shed > 0
                stuck.gate.set()
                assert (await blocking).allowed
            assert nothing_is_left(pep)


class TestBadAnswers:
    async def test_forged_and_malformed_answers_are_counted_and_the_true_one_is_taken(self, server):
        forgeries = [
            b"",
            b"junk",
            b"\x02" + pack(Answers([YES]))[1:],
            pack(Answers([])),
            pack(Answers([YES, YES])),
            pack(Answers([YES], which=b"\x01")),
            pack(Answers([YES], which=b"\x00\x00")),
        ]
        async with (
            serving(server.url, Readers()),
            asking(server.url, DOMAIN) as pep,
            Connection(server.url) as spy,
        ):

            def forge(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                with Attacker(server.url) as attacker:
                    for forgery in forgeries:
                        attacker.publish(reply.encode(), forgery)
                deny = pack(Answers([Decision(False, Reason.NO_POLICY)]))
                spy.send(reply, deny)

            await spy.listen(interest(Mode.ANY, Scope.parse("domain:other")), forge)
            await spy.flush()
            # Only the forger hears this one, so the order is certain.
            pep.asker.domain = "other"
            decision = await pep.check("alice", "/x", "read")
            assert decision.reason is Reason.NO_POLICY
            assert pep.asker.invalid_answers == len(forgeries)
            assert nothing_is_left(pep)

    async def test_one_replica_that_cannot_read_the_question_does_not_answer_for_the_others(self, server):
        """As in an upgrade, when older replicas do not know the new version."""
        async with Connection(server.url) as old, Connection(server.url) as new, asking(server.url) as pep:

            def refuse(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                old.send(reply, pack(Answers(problem="`version` is 1; this side reads version 0")))

            def answer(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                new.send(reply, pack(Answers([YES])))

            await old.listen(interest(Mode.ANY, Scope.parse(DOMAIN)), refuse, QUEUE)
            await new.listen(interest(Mode.ALL, Scope.parse(DOMAIN)), answer)
            await old.flush()
            await new.flush()
            pep.asker.hedge.seconds = 30.0  # not the hedge, but the problem makes it ask the others
            assert await pep.check("alice", "/x", "read") == YES
            assert nothing_is_left(pep)

    async def test_if_no_replica_can_read_it_the_denial_says_why(self, server):
        async with Connection(server.url) as old, asking(server.url, deadline=0.1) as pep:

            def refuse(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
                old.send(reply, pack(Answers(problem="`version` is 1; this side reads version 0")))

            await old.listen(interest(Mode.ANY, Scope.parse(DOMAIN)), refuse)
            await old.listen(interest(Mode.ALL, Scope.parse(DOMAIN)), refuse)
            await old.flush()
            decision = await pep.check("alice", "/x", "read")
            assert decision == Decision(
                False, Reason.INVALID_REQUEST, detail="`version` is 1; this side reads version 0"
            )

    async def test_answers_too_large_for_one_message_are_asked_for_in_parts(self, server):
        class Wordy(Readers):
            def decide(self, request: Request) -> Decision:
                return Decision(True, obligations=({"note": "x" * (MAX_BYTES // 5)},))

        async with serving(server.url, Wordy()), asking(server.url, DOMAIN) as pep:
            answers = await pep.check_many([("alice", f"/{n}", "read") for n in range(20)])
            assert all(answer.allowed for answer in answers)
            assert nothing_is_left(pep)
