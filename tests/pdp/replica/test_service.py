"""A replica answers what it took, says so when it cannot, and nothing that arrives ends it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Decision, Reason, Request
from bus import Connection, NatsServer, NoResponders, ReplyTimeout
from bus.wire.envelope import MAX_BYTES, VERSION, pack
from bus.wire.messages import MAX_QUESTIONS, Answers, Questions, unpack_answers
from bus.wire.scopes import Scope
from bus.wire.subjects import ANNOUNCE, WHO, Mode, question
from pdp.engine import Engine
from pdp.replica.service import Decider, Replica
from tests.attacker import Attacker
from tests.deciders import Gated, Readers
from tests.waiting import eventually

DOMAIN = Scope.parse("domain:default")
ASK = question(Mode.ANY, DOMAIN)
READ = Request.of("alice", "/x", "read")
WRITE = Request.of("alice", "/x", "write")
YES = Decision(True, policies=("readers",))
NO = Decision(False, Reason.NO_POLICY)
encode = msgspec.msgpack.encode


@contextlib.asynccontextmanager
async def replica(
    server: NatsServer, decider: Decider, scope: Scope = DOMAIN, **options: int
) -> AsyncIterator[Replica]:
    async with (
        Connection(server.url) as connection,
        Replica(connection, decider, [scope], **options) as running,
    ):
        yield running


async def ask(bus: Connection, *requests: Request, budget: float = 0.0, subject: str = ASK) -> Answers:
    return await ask_raw(bus, pack(Questions(list(requests), budget)), subject)


async def ask_raw(bus: Connection, payload: bytes, subject: str = ASK) -> Answers:
    return unpack_answers(await bus.ask(subject, payload, 10.0))


async def test_it_answers_each_question_in_order(server, bus):
    async with replica(server, Readers()) as running:
        assert (await ask(bus, READ, WRITE, READ)).in_order() == [YES, NO, YES]
        assert running.answered == 3


async def test_it_counts_every_outcome_whether_answers_are_one_or_differ(server, bus):
    async with replica(server, Engine([])) as running:
        await ask(bus, READ, READ, READ)
        await ask(bus, READ)
        assert running.outcomes == {(False, Reason.NO_POLICY): 4}
    async with replica(server, Readers()) as running:
        await ask(bus, READ, WRITE, READ, WRITE, WRITE)
        assert running.outcomes == {(True, Reason.POLICY): 2, (False, Reason.NO_POLICY): 3}


async def test_a_message_with_no_questions_has_no_answers_and_takes_no_place(server, bus):
    decider = Gated()
    async with replica(server, decider, workers=1) as running:
        waiting = asyncio.create_task(ask(bus, READ))
        await decider.entered.wait()
        assert (await ask(bus)).in_order() == []
        assert running._queue.empty()
        decider.gate.set()
        await waiting


async def test_an_observer_that_fails_takes_no_answer_and_no_worker(server, bus):
    def observe(requests: Sequence[Request], decisions: Sequence[Decision]) -> None:
        raise RuntimeError("the observer is out of luck")

    async with (
        Connection(server.url) as connection,
        Replica(connection, Readers(), [DOMAIN], workers=2, observe=observe) as running,
    ):
        for _ in range(20):
            assert (await ask(bus, READ)).in_order() == [YES]
        assert not any(work.failures for work in running._works)


async def test_messages_that_cannot_be_answered_end_no_worker(server, bus, monkeypatch):
    async with replica(server, Readers(), workers=2) as running:
        failing = iter(range(20))
        whole = running._reply

        def reply(*args: object) -> None:
            if next(failing, None) is not None:
                raise RuntimeError("out of luck")
            whole(*args)

        monkeypatch.setattr(running, "_reply", reply)
        asking = [asyncio.create_task(ask(bus, READ)) for _ in range(20)]
        await eventually(lambda: running.shed == 20)
        assert (await ask(bus, READ)).in_order() == [YES]
        for each in asking:
            each.cancel()


async def test_a_worker_that_fails_is_started_again(server, bus, monkeypatch):
    async with replica(server, Readers(), workers=1) as running:
        failing = [True]
        get = running._queue.get

        async def broken() -> object:
            if failing:
                failing.clear()
                raise RuntimeError("out of luck")
            return await get()

        monkeypatch.setattr(running._queue, "get", broken)
        await ask(bus, READ)  # by the worker that waits already
        await eventually(lambda: running._works[0].failures == 1)
        assert (await ask(bus, READ)).in_order() == [YES]


class TestDrain:
    async def test_it_answers_what_was_taken_and_takes_no_more(self, server, bus):
        decider = Gated()
        async with Connection(server.url) as connection:
            running = Replica(connection, decider, [DOMAIN], workers=1)
            await running.__aenter__()
            taken = [asyncio.create_task(ask(bus, READ)) for _ in range(5)]
            await eventually(lambda: running.queued == 5)
            draining = asyncio.create_task(running.drain())
            await eventually(lambda: not connection._client._subs.keys() - {1})
            await connection.flush()  # so that the server knows too
            with pytest.raises(NoResponders):
                await ask(bus, READ)
            assert not draining.done()
            decider.gate.set()
            await draining
            for answers in await asyncio.gather(*taken):
                assert answers.in_order() == [Decision(True, policies=("gated",))]
            assert running.answered == 5
            assert running.queued == 0

    async def test_it_announces_itself_no_more(self, server, bus):
        heard = []
        await bus.listen(ANNOUNCE, lambda *message: heard.append(message))
        async with Connection(server.url) as connection:
            running = Replica(connection, Readers(), [DOMAIN])
            await running.__aenter__()
            await eventually(lambda: heard)
            await running.drain()
            heard.clear()
            with pytest.raises(NoResponders):
                await bus.ask(WHO, b"", 5.0)
            running._announce()
            await connection.flush()
            await bus.flush()
            assert not heard

    async def test_a_decider_that_never_ends_does_not_keep_it(self, server, bus):
        async with Connection(server.url) as connection:
            running = Replica(connection, Gated(), [DOMAIN])
            await running.__aenter__()
            asking = asyncio.create_task(ask(bus, READ))
            await eventually(lambda: running.queued == 1)
            await running.drain(seconds=0.05)
            assert all(work.done for work in running._works)
            asking.cancel()

    async def test_it_ends_although_the_bus_is_gone(self, own_server):
        async with replica(own_server, Readers()) as running:
            await own_server.stop(signal.SIGKILL)
            await eventually(lambda: not running.connection.ready)
        assert all(work.done for work in running._works)

    async def test_draining_twice_is_no_error(self, server):
        async with replica(server, Readers()) as running:
            await running.drain()


class TestBadQuestions:
    async def test_a_malformed_message_gets_an_answer_that_says_why(self, server, bus):
        async with replica(server, Readers()) as running:
            answers = await ask_raw(bus, bytes([VERSION]) + encode([5]))
            assert answers.problem == "`requests` expected `array`, got `int`"
            assert (await ask_raw(bus, b"\x07junk")).problem == "`version` is 7; this side reads version 1"
            assert running.refused == 2
            assert (await ask(bus, READ)).in_order() == [YES]

    @pytest.mark.parametrize(
        ("bad", "field"),
        [
            ([5, ["/x"], ["read"]], "subject"),
            ([[7], ["/x"], ["read"]], "subject.id"),
            ([["alice"], [""], ["read"]], "object.id"),
            ([["alice"], ["/x", {1: 2}], ["read"]], "object.attributes"),
            ([["alice"], ["/public/../sales"], ["read"]], "object.id"),
            ([["alice"], ["/x"]], "request"),
            ([["alice"], ["/x"], ["read"], "noon"], "context"),
            ("nothing like it", "request"),
        ],
    )
    async def test_one_bad_request_in_a_message_harms_only_itself(self, server, bus, bad, field):
        async with replica(server, Readers()):
            payload = bytes([VERSION]) + encode([[READ, bad, WRITE], 0.0])
            first, second, third = (await ask_raw(bus, payload)).in_order()
            assert (first, third) == (YES, NO)
            assert (second.allowed, second.reason) == (False, Reason.INVALID_REQUEST)
            assert second.detail.startswith(f"`{field}` "), second.detail

    async def test_a_dot_that_leads_elsewhere_is_refused_also_among_good_requests(self, server, bus):
        async with replica(server, Readers()):
            up = Request.of("alice", "/public/../sales", "read")
            dotted = Request.of("alice", "/public/a.txt", "read")
            first, second = (await ask(bus, up, dotted)).in_order()
            assert first.reason is Reason.INVALID_REQUEST
            assert second == YES

    async def test_a_message_with_too_many_questions_is_refused(self, server, bus):
        async with replica(server, Readers()) as running:
            answers = await ask(bus, *[READ] * (MAX_QUESTIONS + 1))
            assert answers.problem == "`requests` has 1025 entries; at most 1024 are allowed"
            assert running.queued == 0

    async def test_unknown_fields_are_ignored(self, server, bus):
        async with replica(server, Readers()):
            payload = bytes([VERSION]) + encode(
                [[[["alice"], ["/x"], ["read"], {}, "new"]], 0.0, b"", 0, "new"]
            )
            assert (await ask_raw(bus, payload)).in_order() == [YES]

    @pytest.mark.parametrize("reply", [b"", b"$KV.policies.main", b"af.ask.any.default.=many"])
    async def test_answers_go_to_inboxes_only(self, server, bus, reply):
        """Or whoever may ask could have the replica write where he himself may not."""
        heard = []
        await bus.listen("$KV.>", lambda *message: heard.append(message))
        await bus.flush()
        async with replica(server, Readers()) as running:
            with Attacker(server.url) as attacker:
                attacker.publish(ASK.encode(), pack(Questions([READ])), reply=reply)
            await eventually(lambda: running.refused == 1)
            assert (await ask(bus, READ)).in_order() == [YES]
            assert running.answered == 1
            assert not heard

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.binary(max_size=300), min_size=1, max_size=20), st.booleans())
    def test_no_bytes_stop_it(self, server, junk, versioned):
        async def attack() -> None:
            async with Connection(server.url) as bus, replica(server, Readers()) as running:
                with Attacker(server.url) as attacker:
                    for data in junk:
                        payload = bytes([VERSION]) + data if versioned else data
                        attacker.publish(ASK.encode(), payload, reply=b"_INBOX.nobody.1")
                assert (await ask(bus, READ)).in_order() == [YES]
                assert running.connection.reconnects == 0
                assert running.queued == 0

        asyncio.run(attack())


class TestDecider:
    async def test_one_that_fails_denies_with_policy_error(self, server, bus):
        class Broken:
            async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
                raise ValueError("a fault of the decider's own")

        async with replica(server, Broken(), workers=1):
            for _ in range(3):  # the only worker survives
                (decision,) = (await ask(bus, READ)).in_order()
                assert (decision.allowed, decision.reason) == (False, Reason.POLICY_ERROR)
                assert decision.detail == "the PDP failed on this request; see its log"

    async def test_a_request_that_makes_it_fail_harms_only_itself(self, server, bus):
        class Picky(Readers):
            def decide(self, request: Request) -> Decision:
                if request.subject.id == "poison":
                    raise ValueError("a fault of the decider's own")
                return super().decide(request)

        async with replica(server, Picky()):
            poison = Request.of("poison", "/x", "read")
            first, second, third = (await ask(bus, READ, poison, WRITE)).in_order()
            assert (first, third) == (YES, NO)
            assert second.reason is Reason.POLICY_ERROR

    @pytest.mark.parametrize("count", [0, 1, 3])
    async def test_one_that_gives_another_number_of_decisions_has_failed(self, server, bus, count):
        class Miscounting:
            async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
                return [YES] * (count if len(requests) == 2 else 0)

        async with replica(server, Miscounting(), workers=1):
            for _ in range(2):
                decisions = (await ask(bus, READ, WRITE)).in_order()
                assert [each.reason for each in decisions] == [Reason.POLICY_ERROR] * 2

    async def test_answers_too_large_to_send_together_are_to_be_asked_for_alone(self, server, bus):
        class Wordy(Readers):
            def decide(self, request: Request) -> Decision:
                size = MAX_BYTES if request.action.id == "write" else MAX_BYTES // 2
                return Decision(True, obligations=({"note": "x" * size},))

        async with replica(server, Wordy(), workers=1):
            assert (await ask(bus, READ, READ)).problem == "the answers are too large to send together"
            assert (await ask(bus, READ)).in_order()[0].allowed
            (decision,) = (await ask(bus, WRITE)).in_order()
            assert (decision.allowed, decision.reason) == (False, Reason.POLICY_ERROR)
            assert "too large" in decision.detail

    async def test_one_that_returns_what_cannot_be_sent_has_failed(self, server, bus):
        class Strange(Readers):
            def decide(self, request: Request) -> Decision:
                return Decision(True, obligations=({"note": object()},))

        async with replica(server, Strange(), workers=1):
            for _ in range(2):
                (decision,) = (await ask(bus, READ)).in_order()
                assert (decision.allowed, decision.reason) == (False, Reason.POLICY_ERROR)


class TestOverload:
    async def test_beyond_its_queue_it_says_that_it_is_busy(self, server, bus):
        decider = Gated()
        async with replica(server, decider, max_queue=4, workers=1) as running:
            taken = asyncio.create_task(ask(bus, READ, READ, READ))
            await eventually(lambda: running.queued == 3)
            assert (await ask(bus, READ, WRITE)).in_order() == [None, None]
            assert running.shed == 2
            last = asyncio.create_task(ask(bus, READ))
            await eventually(lambda: running.queued == 4)
            assert (await ask(bus, READ)).in_order() == [None]
            decider.gate.set()
            assert len((await taken).in_order()) == 3
            assert len((await last).in_order()) == 1
            assert running.queued == 0

    async def test_an_idle_one_takes_a_message_however_small_its_queue_is(self, server, bus):
        async with replica(server, Readers(), max_queue=1):
            assert (await ask(bus, READ, WRITE, READ)).in_order() == [YES, NO, YES]

    async def test_what_nobody_waits_for_any_more_is_not_decided(self, server, bus):
        decider = Gated()
        async with replica(server, decider, workers=1) as running:
            first = asyncio.create_task(ask(bus, READ))
            await decider.entered.wait()
            late = asyncio.create_task(ask(bus, WRITE, budget=0.001))
            await eventually(lambda: running.queued == 2)
            await asyncio.sleep(0.002)
            decider.gate.set()
            await first
            await eventually(lambda: running.expired == 1)
            assert decider.asked == [READ]
            late.cancel()

    @pytest.mark.parametrize("budget", [float("nan"), -1.0])
    async def test_a_budget_that_makes_no_sense_does_no_harm(self, server, bus, budget):
        async with replica(server, Readers()) as running:
            with pytest.raises(ReplyTimeout):
                await bus.ask(ASK, pack(Questions([READ], budget)), 0.05)
            assert running.expired == 1
            assert (await ask(bus, READ)).in_order() == [YES]
