"""What a service may rely on: an answer to every question, and a denial with its reason if the fabric fails."""

from __future__ import annotations

import asyncio
import enum
import itertools
import signal

import pytest

from authz import Decision, Entity, InvalidRequest, Reason, Request
from bus.errors import InvalidScope
from bus.runtime.process import signal_process
from bus.wire.scopes import Scope
from pep import UNVERIFIED, AccessDenied, Enforcer, Strategy
from pep.secondary import YIELD_EVERY
from tests.deciders import Gated, Readers
from tests.pep.fabric import asking, serving, serving_unannounced, wiretap
from tests.pep.recycling_world import QUESTION, only, world
from tests.waiting import eventually

YES = Decision(True, policies=("readers",))
NO = Decision(False, Reason.NO_POLICY)


class TestScopes:
    @pytest.mark.parametrize("strategy", list(Strategy))
    @pytest.mark.parametrize(
        ("scope", "inside", "outside"),
        [
            ("broadcast", ("alice", "anything at all", "read"), None),
            ("domain:default", ("alice", "/sales/budget/New York", "read"), None),
            ("prefix:/sales", ("alice", "/sales/budget/New York", "read"), ("alice", "/salesmen", "read")),
            ("prefix:/sales", ("alice", "/sales", "read"), ("alice", "/", "read")),
            ("object:/sales/q1", ("alice", "/sales/q1", "read"), ("alice", "/sales/q1/x", "read")),
            ("tuple:alice,/sales/q1,read", ("alice", "/sales/q1", "read"), ("bob", "/sales/q1", "read")),
        ],
    )
    async def test_each_kind_is_answered_inside_and_nowhere_else(
        self, server, scope, inside, outside, strategy
    ):
        async with serving(server.url, Readers(), scope), asking(server.url, scope, strategy=strategy) as pep:
            assert await pep.check(*inside) == YES
            if outside:
                decision = await pep.check(*outside)
                assert (decision.allowed, decision.reason) == (False, Reason.NO_PDP)

    async def test_another_domain_is_not_answered(self, server):
        async with serving(server.url, Readers(), "domain:shop"), asking(server.url, "domain:shop") as pep:
            assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP

    async def test_a_question_that_no_announcement_covers_reaches_whoever_serves_it(self, server):
        exact = [f"tuple:alice,/x/{n},read" for n in range(10)]
        async with serving_unannounced(server.url, Readers(), *exact), asking(server.url) as pep:
            assert await pep.check("alice", "/x/7", "read") == YES
            assert not len(pep.asker.scopes)

    async def test_names_are_carried_exactly(self, server):
        names = [
            "*",
            ">",
            "a.b",
            "/a//b",
            "\x00\r\n\t",
            "=many",
            "ünïcödé",
            "/sales/budget/New York",
            "%2C,:",
        ]
        decider = Readers()
        async with serving(server.url, decider, "prefix:/"), asking(server.url) as pep:
            for name in names:
                assert await pep.check(name, name, name) == NO
        asked = [each for each, _ in itertools.groupby(decider.asked)]  # a slow answer is asked for twice
        assert asked == [Request.of(name, name, name) for name in names]

    async def test_of_two_replicas_one_that_serves_the_object_answers(self, server):
        sales, hr = Readers("sales"), Readers("hr")
        async with (
            serving(server.url, sales, "prefix:/sales"),
            serving(server.url, hr, "prefix:/hr"),
            asking(server.url, "prefix:/sales", "prefix:/hr") as pep,
        ):
            assert (await pep.check("alice", "/hr/x", "read")).policies == ("hr",)
            assert (await pep.check("alice", "/sales/x", "read")).policies == ("sales",)

    async def test_a_replica_that_came_later_is_asked_with_no_change_at_the_pep(self, server):
        async with asking(server.url) as pep:
            assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
            async with serving(server.url, Readers()):
                await eventually(lambda: len(pep.asker.scopes))
                assert await pep.check("alice", "/x", "read") == YES


class TestCalls:
    @pytest.fixture
    async def pep(self, server):
        async with serving(server.url, Readers()), asking(server.url, "domain:default") as pep:
            yield pep

    async def test_check_takes_names_entities_or_a_request(self, pep):
        alice = Entity("alice", {"age": 7})
        assert await pep.check("alice", "/x", "read") == YES
        assert await pep.check(alice, Entity("/x"), Entity("read"), context={"hour": 9}) == YES
        assert await pep.check(Request.of(alice, "/x", "write")) == NO

    async def test_check_takes_a_member_of_an_enumeration(self, pep):
        class Action(enum.StrEnum):
            READ = "read"

        assert await pep.check("alice", "/x", Action.READ) == YES

    async def test_require_returns_what_is_allowed_and_raises_what_is_not(self, pep):
        assert await pep.require("alice", "/x", "read") == YES
        with pytest.raises(AccessDenied, match=r"`alice` may not `write` `/x`: deny \(no-policy\)") as raised:
            await pep.require("alice", "/x", "write")
        assert raised.value.decision == NO
        assert raised.value.request == Request.of("alice", "/x", "write")

    async def test_check_many_answers_in_order(self, pep):
        questions = [("alice", f"/x/{n}", "read" if n % 3 else "write") for n in range(500)]
        assert await pep.check_many(questions) == [YES if n % 3 else NO for n in range(500)]
        assert await pep.check_many([]) == []

    async def test_one_request_that_cannot_be_asked_names_its_field_and_harms_nobody_else(self, pep):
        bad = Request.of(Entity("alice", {"when": object()}), "/x", "read")
        together, beside = await asyncio.gather(
            pep.check_many([("alice", "/x", "read"), bad, ("alice", "..", "read"), ("alice", "/x", "write")]),
            pep.check("bob", "/x", "read"),
        )
        assert (together[0], together[3], beside) == (YES, NO, YES)
        assert [each.reason for each in together[1:3]] == [Reason.INVALID_REQUEST] * 2
        assert together[1].detail.startswith("`subject.attributes` must hold JSON values only")
        assert together[2].detail.startswith("`object.id` must not have")

    @pytest.mark.parametrize(
        ("request_", "field"),
        [
            (Request.of("", "/x", "read"), "subject.id"),
            (Request.of("alice", "/x/../y", "read"), "object.id"),
            (Request.of("alice", Entity("/x", {"n": 2**70}), "read"), "object.attributes"),
            (Request.of("alice", "/x", Entity("read", {"n": {1, object()}})), "action.attributes"),
            (Request.of("alice", "/x", "read", {"n": "\ud800"}), "context"),
            (Request.of("alice", Entity("/x", {7: "n"}), "read"), "object.attributes"),
            (Request.of("alice", "/x", "read", {"note": "x" * 70_000}), "context"),
            (
                Request.of(Entity("alice", {"deep": eval("[" * 90 + "]" * 90)}), "/x" * 500, "read"),
                "object.id",
            ),
        ],
    )
    async def test_what_cannot_be_asked_is_refused_by_the_name_of_its_field(self, pep, request_, field):
        for ask in (pep.check, pep.require):
            with pytest.raises(InvalidRequest) as raised:
                await ask(request_)
            assert raised.value.field == field
        assert pep.asker.open == 0

    async def test_a_recursive_attribute_is_refused(self, pep):
        circle: list[object] = []
        circle.append(circle)
        with pytest.raises(InvalidRequest, match=r"`subject\.attributes` must hold JSON values only"):
            await pep.check(Entity("alice", {"circle": circle}), "/x", "read")

    async def test_a_request_may_be_as_large_as_the_limit_and_many_of_them_at_once(self, pep):
        """Together they are too large for one message."""
        note = {"note": "x" * 60_000}
        requests = [Request.of("alice", f"/x/{n}", "read", note) for n in range(40)]
        assert await pep.check_many(requests) == [YES] * 40
        assert pep.asker.open == 0

    @pytest.mark.parametrize("deadline", [0, -1.0, float("nan"), "1"])
    async def test_a_deadline_must_be_in_the_future(self, pep, deadline):
        with pytest.raises(InvalidRequest, match="`deadline` must be more than 0 seconds"):
            await pep.check("alice", "/x", "read", deadline=deadline)
        with pytest.raises(InvalidRequest):
            await pep.check_many([("alice", "/x", "read")], deadline=deadline)

    async def test_a_strategy_may_be_given_by_its_name(self, pep):
        assert await pep.check("alice", "/x", "read", strategy="flood") == YES
        with pytest.raises(InvalidRequest, match="`strategy` must be flood, queue, hedge, not `everyone`"):
            await pep.check("alice", "/x", "read", strategy="everyone")

    async def test_a_domain_must_have_a_name_that_fits(self, server):
        for domain in ("", "d" * 200):
            with pytest.raises(InvalidScope, match="domain"):
                async with Enforcer.connect(server.url, domain=domain, trust=UNVERIFIED):
                    pass


class TestDeadline:
    async def test_each_call_may_have_its_own(self, server):
        decider = Gated()
        async with serving(server.url, decider), asking(server.url, "domain:default") as pep:
            patient = asyncio.create_task(pep.check("alice", "/x", "read"))
            hasty = await pep.check("alice", "/x", "read", deadline=0.05)
            assert hasty == Decision(False, Reason.TIMEOUT, detail="no PDP answered for `/x` within 0.05 s")
            assert not patient.done()
            decider.gate.set()
            assert (await patient).allowed

    async def test_it_is_told_to_the_pdp(self, server):
        async with (
            serving(server.url, Readers()),
            wiretap(server.url) as tap,
            asking(server.url, "domain:default") as pep,
        ):
            await pep.check("alice", "/x", "read", deadline=0.75)
            await tap.subjects(pep)
            ((_, questions),) = tap.heard
            assert 0.0 < questions.budget <= 0.75


class TestFailClosed:
    async def test_no_pdp_serves_the_object(self, server):
        async with asking(server.url, deadline=30.0) as pep:
            decision = await pep.check("alice", "/sales/q1", "read")
            assert decision == Decision(False, Reason.NO_PDP, detail="no PDP serves `/sales/q1`")
            with pytest.raises(AccessDenied, match="no PDP serves `/sales/q1`"):
                await pep.require("alice", "/sales/q1", "read")

    async def test_none_answered_in_time(self, server):
        decider = Gated()
        async with serving(server.url, decider), asking(server.url, "domain:default", deadline=0.1) as pep:
            decision = await pep.check("alice", "/sales/q1", "read")
            assert decision == Decision(
                False, Reason.TIMEOUT, detail="no PDP answered for `/sales/q1` within 0.1 s"
            )
            decider.gate.set()

    async def test_not_connected(self, own_server):
        async with asking(own_server.url, deadline=0.1) as pep:
            await own_server.stop(signal.SIGKILL)
            await eventually(lambda: not pep.asker.connection.ready)
            decision = await pep.check("alice", "/sales/q1", "read")
            assert decision == Decision(
                False, Reason.NOT_CONNECTED, detail=f"not connected to `{own_server.url}`"
            )

    async def test_every_pdp_too_busy(self, server):
        decider = Gated()
        async with (
            serving(server.url, decider, max_queue=1) as replica,
            asking(server.url, "domain:default", deadline=0.1) as pep,
        ):
            blocking = asyncio.create_task(pep.check("alice", "/x", "read", deadline=10.0))
            await eventually(lambda: replica.queued == 1)
            decision = await pep.check("alice", "/sales/q1", "read")
            assert decision == Decision(
                False, Reason.BUSY, detail="every PDP that serves `/sales/q1` was too busy for 0.1 s"
            )
            assert replica.shed > 1
            decider.gate.set()
            assert (await blocking).allowed

    async def test_closing_answers_what_is_open(self, server):
        decider = Gated()
        async with serving(server.url, decider):
            async with asking(server.url, "domain:default") as pep:
                sent = asyncio.create_task(pep.check("alice", "/x", "read"))
                await eventually(lambda: pep.asker.open == 1)
                unsent = pep.asker.decide(Request.of("alice", "/y", "read"))
            assert (await sent).reason is Reason.NOT_CONNECTED
            assert (await unsent).reason is Reason.NOT_CONNECTED
            assert (await pep.check("alice", "/z", "read")).reason is Reason.NOT_CONNECTED
            assert pep.asker.open == 0
            decider.gate.set()

    async def test_a_password_in_the_url_is_not_in_the_answer(self, own_server):
        url = own_server.url.replace("nats://", "nats://user:secret@")
        async with asking(url, deadline=0.05) as pep:
            await own_server.stop(signal.SIGKILL)
            await eventually(lambda: not pep.asker.connection.ready)
            assert "secret" not in str(await pep.check("alice", "/x", "read"))


async def test_scopes_are_shown_as_they_are_announced(server):
    async with serving(server.url, Readers(), "prefix:/sales"), asking(server.url, "prefix:/sales") as pep:
        assert list(pep.asker.scopes) == [Scope.parse("prefix:/sales")]


class TestTurns:
    async def test_answers_without_asking_leave_the_event_loop_its_turn(self, tmp_path):
        async with world(tmp_path) as here, here.replica():
            await here.push(only("bob"))
            async with here.pep() as pep:
                while (await pep.check(QUESTION)).inferred is None:
                    pass
                for ask in (lambda: pep.check(QUESTION), lambda: pep.check_many([QUESTION] * 8)):
                    turns: list[bool] = []
                    asyncio.get_running_loop().call_soon(turns.append, True)
                    for _ in range(YIELD_EVERY):
                        await ask()
                    assert turns

    async def test_refusals_without_asking_leave_the_event_loop_its_turn(self, server):
        async with asking(server.url) as pep:
            assert (await pep.check("alice", "/x", "read")).reason is Reason.NO_PDP
            turns: list[bool] = []
            asyncio.get_running_loop().call_soon(turns.append, True)
            await pep.check("alice", "/x", "read")
            assert turns

    async def test_leaving_while_the_server_dies_raises_nothing(self, tmp_path):
        async with world(tmp_path) as here, here.replica():
            await here.push(only("bob"))
            async with here.pep() as pep:
                await pep.check(QUESTION)
                signal_process(here.server.pid, signal.SIGKILL)
