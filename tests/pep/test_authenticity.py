"""Attacks on answers, over a real server: whatever an attacker sends, the PEP acts on the true PDP's answer or on none.

The attacker hears every question and every answer, and sends what it likes to whom it likes. In each test its messages
arrive first: the true PDP decides only when the PEP has refused what was to be refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from time import time

import msgspec
import pytest

from authz import Decision, Identity, Reason, Request
from authz.agreement import AgreementKey, AnswerMac
from authz.introduction import Introduction
from authz.spki import Notice
from bus import Connection, NatsServer
from bus.authentic import unwrap, wrap
from bus.envelope import pack
from bus.messages import Announcement, Answers, unpack_questions
from bus.revocations import publish_notice
from bus.subjects import ANNOUNCE, WHO, is_inbox
from pdp.service import CannotDecide
from pep import Enforcer
from pep.authenticity import Refusal
from pep.metrics import EnforcerMetrics
from tests.attacker import Attacker
from tests.deciders import Gated, Readers
from tests.pep.fabric import serving
from tests.waiting import eventually
from tests.warrants import right, warrant

ROOT, EVE = Identity.generate(), Identity.generate()
ALLOW = Decision(True, policies=("forged",))
WRITE = Request.of("ann", "/sales/q1", "write")
READ = Request.of("ann", "/sales/q1", "read")


class Liars(Readers):
    """Allows everything."""

    def decide(self, request: Request) -> Decision:
        return ALLOW


@dataclass(frozen=True)
class Heard:
    """A question as it was sent."""

    subject: str
    reply: str
    payload: bytes

    def lie(self) -> bytes:
        """Yes to everything, in the plain form."""
        return pack(Answers([ALLOW] * len(unpack_questions(self.payload).requests)))


@dataclass
class Mallory:
    """Hears everything, and answers each question at once with whatever `forge` makes of it."""

    bus: Connection
    forge: Callable[[Heard], list[bytes]] = lambda heard: []
    questions: list[Heard] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    """Authentic ones that went to anybody."""

    def overhear(self, subject: str, payload: bytes) -> None:
        if is_inbox(subject) and unwrap(payload) is not None:
            self.answers.append(payload)

    def hear(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        heard = Heard(subject, reply, payload)
        self.questions.append(heard)
        for each in self.forge(heard):
            self.bus.send(reply, each)


@contextlib.asynccontextmanager
async def mallory(
    url: str, forge: Callable[[Heard], list[bytes]] = lambda heard: []
) -> AsyncIterator[Mallory]:
    async with Connection(url) as bus:
        attacker = Mallory(bus, forge)
        await bus.listen("af.ask.>", attacker.hear)
        await bus.listen("*.*", lambda subject, r, data, h: attacker.overhear(subject, data))
        await bus.flush()
        yield attacker


@contextlib.asynccontextmanager
async def trusting(
    url: str, *introduced: Identity, deadline: float = 10.0, **options
) -> AsyncIterator[Enforcer]:
    """A PEP that trusts the root and knows these replicas."""
    async with Enforcer.connect(url, trust=[ROOT.public], deadline=deadline, **options) as pep:
        deciders = pep.asker.authenticity.deciders
        await eventually(lambda: all(deciders.get(each.public.raw, time()) for each in introduced))
        yield pep


def refused(pep: Enforcer) -> dict[Refusal, int]:
    return pep.asker.authenticity.refused


async def answered(pep: Enforcer, gated: Gated, refusal: Refusal, request: Request = WRITE) -> Decision:
    """The decision, where the true PDP decides only when something was refused for this reason."""
    before = refused(pep)[refusal]
    asking = asyncio.create_task(pep.check(request))
    await eventually(lambda: refused(pep)[refusal] > before)
    assert not asking.done()
    gated.gate.set()
    return await asking


def by_stranger(heard: Heard) -> bytes:
    """Well authenticated, by someone nobody introduced."""
    asker = unpack_questions(heard.payload).asker
    mac = AnswerMac.of_decider(AgreementKey.of(EVE), asker)
    return wrap(EVE.public.raw, mac.tag(heard.subject, heard.payload, heard.lie()), heard.lie())


PDP = Identity.generate()

FORGERIES = {
    "plain": (lambda heard: heard.lie(), Refusal.UNAUTHENTICATED),
    "plain and too busy": (lambda heard: pack(Answers([None])), Refusal.UNAUTHENTICATED),
    "plain and misunderstood": (lambda heard: pack(Answers(problem="what?")), Refusal.UNAUTHENTICATED),
    "empty": (lambda heard: b"", Refusal.UNAUTHENTICATED),
    "cut short": (lambda heard: wrap(PDP.public.raw, bytes(16), b"")[:-1], Refusal.UNAUTHENTICATED),
    "by a stranger": (by_stranger, Refusal.UNKNOWN),
    "in the PDP's name, without its key": (
        lambda heard: wrap(PDP.public.raw, bytes(16), heard.lie()),
        Refusal.FORGED,
    ),
    "in the PDP's name, by the stranger's key": (
        lambda heard: wrap(PDP.public.raw, unwrap(by_stranger(heard))[1], heard.lie()),
        Refusal.FORGED,
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_answer_is_refused_and_the_true_one_is_taken(server, name):
    forge, refusal = FORGERIES[name]
    gated = Gated()
    async with (
        serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
        mallory(server.url, lambda heard: [forge(heard)]),
        trusting(server.url, PDP) as pep,
    ):
        decision = await answered(pep, gated, refusal)
        assert (decision.allowed, decision.reason) == (False, Reason.NO_POLICY)


async def test_a_true_answer_is_used_and_nothing_is_refused(server):
    async with (
        serving(server.url, Readers(), warrant=warrant(ROOT, holder=PDP)),
        trusting(server.url, PDP) as pep,
    ):
        assert (await pep.check(READ)).allowed
        assert not (await pep.check(WRITE)).allowed
        assert [d.allowed for d in await pep.check_many([READ, WRITE, READ])] == [True, False, True]
        assert refused(pep) == {}


@contextlib.asynccontextmanager
async def bridge(near: str, far: str, pass_on: Callable[[bytes], bytes]) -> AsyncIterator[None]:
    """Someone in the middle, through whose hands everything goes between a PEP and the PDPs of another server."""
    async with Connection(near) as here, Connection(far) as there:

        def ask(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            mine = there.expect(lambda data, nobody: here.send(reply, pass_on(data)))
            there.send(subject, payload, mine)

        await here.listen("af.ask.>", ask)
        await there.listen(ANNOUNCE, lambda subject, r, data, h: here.send(subject, data))
        await here.flush()
        yield


def say_yes(answer: bytes) -> bytes:
    """An authentic answer, with another word in it."""
    sender, tag, _ = unwrap(answer)
    return wrap(sender, tag, pack(Answers([ALLOW])))


async def test_an_answer_that_was_altered_on_the_way_is_refused(server, own_server):
    async with serving(own_server.url, Readers(), warrant=warrant(ROOT, holder=PDP)):
        async with (
            bridge(server.url, own_server.url, lambda answer: answer),
            trusting(server.url, PDP) as pep,
        ):
            assert (await pep.check(WRITE)).reason is Reason.NO_POLICY
        async with (
            bridge(server.url, own_server.url, say_yes),
            trusting(server.url, PDP, deadline=0.3) as pep,
        ):
            decision = await pep.check(WRITE)
            assert (decision.allowed, decision.reason) == (False, Reason.TIMEOUT)
            assert set(refused(pep)) == {Refusal.FORGED}


async def test_no_two_questions_are_the_same_even_if_asked_at_the_same_instant(server, monkeypatch):
    monkeypatch.setattr("pep.batch.monotonic", lambda: 1.0)
    async with (
        serving(server.url, Readers(), warrant=warrant(ROOT, holder=PDP)),
        mallory(server.url) as attacker,
        trusting(server.url, PDP) as pep,
    ):
        for _ in range(2):
            assert (await pep.check(READ)).allowed
        await eventually(lambda: len(attacker.questions) >= 2)
        assert len({each.payload for each in attacker.questions}) == len(attacker.questions)


async def test_a_true_answer_cannot_be_replayed_to_the_same_question(server):
    """Yesterday the answer was yes; today it is no, and the question is the same word for word."""
    gated, true = Gated(), []
    async with (
        serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
        mallory(server.url, lambda heard: true) as attacker,
        trusting(server.url, PDP) as pep,
    ):
        gated.gate.set()
        assert (await pep.check(READ)).allowed
        await eventually(lambda: attacker.answers)
        true.extend(attacker.answers)
        gated.gate.clear()
        gated.decide = lambda request: Decision(False, Reason.NO_POLICY)
        assert not (await answered(pep, gated, Refusal.FORGED, READ)).allowed


async def test_an_answer_to_one_pep_is_of_no_use_to_another(server):
    gated = Gated()
    async with (
        serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
        mallory(server.url) as attacker,
        trusting(server.url, PDP) as one,
        trusting(server.url, PDP) as two,
    ):
        gated.gate.set()
        assert (await one.check(READ)).allowed
        await eventually(lambda: attacker.answers)
        true = list(attacker.answers)
        attacker.forge = lambda heard: true
        gated.gate.clear()
        gated.decide = lambda request: Decision(False, Reason.NO_POLICY)
        assert not (await answered(two, gated, Refusal.FORGED, READ)).allowed


async def test_a_question_cannot_be_moved_to_another_domain(server):
    """The bank allows what the shop does not, and one root empowered the PDPs of both."""
    gated, banker = Gated(), Identity.generate()
    moved: dict[str, str] = {}
    async with (
        serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
        serving(server.url, Liars(), "domain:bank", warrant=warrant(ROOT, holder=banker)),
        mallory(server.url) as attacker,
        trusting(server.url, PDP, banker) as pep,
    ):

        def move(heard: Heard) -> list[bytes]:
            if ".default." in heard.subject:
                mine = attacker.bus.expect(lambda data, nobody: attacker.bus.send(heard.reply, data))
                moved[mine] = heard.reply
                attacker.bus.send(heard.subject.replace(".default.", ".bank."), heard.payload, mine)
            return []

        attacker.forge = move
        assert not (await answered(pep, gated, Refusal.FORGED)).allowed
        assert moved


async def test_an_answer_that_is_held_back_beyond_the_deadline_is_good_for_nothing(server):
    gated, late = Gated(), []
    async with (
        serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
        mallory(server.url, lambda heard: late) as attacker,
        trusting(server.url, PDP, deadline=0.2) as pep,
    ):
        decision = await pep.check(READ)
        assert (decision.allowed, decision.reason) == (False, Reason.TIMEOUT)
        gated.gate.set()
        await eventually(lambda: attacker.answers)
        late.extend(attacker.answers)
        gated.gate.clear()
        gated.decide = lambda request: Decision(False, Reason.NO_POLICY)
        later = await pep.check(READ, deadline=0.3)
        assert (later.allowed, later.reason) == (False, Reason.TIMEOUT)
        assert refused(pep)[Refusal.FORGED] > 0
        gated.gate.set()  # or leaving would wait for what is still to be decided


class OnlyOnce(Gated):
    """Decides what it is asked first, when its gate opens, and nothing after that."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        if self.entered.is_set():
            raise CannotDecide
        return await super().decide_many(requests)


@pytest.mark.parametrize("announced", [True, False])
async def test_nobody_can_end_a_question_by_saying_that_nobody_listens(server, announced):
    once = OnlyOnce()
    scopes = ["domain:default"] if announced else [f"object:/{n}" for n in range(300)] + ["prefix:/sales"]
    with Attacker(server.url) as socket:

        def silence(heard: Heard) -> list[bytes]:
            for _ in range(3):
                socket.publish_with_headers(heard.reply.encode(), b"NATS/1.0 503\r\n\r\n")
            return []

        async with (
            serving(server.url, once, *scopes, warrant=warrant(ROOT, holder=PDP)),
            mallory(server.url, silence) as attacker,
            trusting(server.url, PDP) as pep,
        ):
            asking = asyncio.create_task(pep.check(READ))
            await eventually(lambda: len(attacker.questions) > 2)
            assert not asking.done()
            once.gate.set()
            assert (await asking).allowed


async def test_a_flood_of_such_words_makes_a_pep_ask_no_more_often(server):
    gated = Gated()
    with Attacker(server.url) as socket:

        def silence(heard: Heard) -> list[bytes]:
            for _ in range(30):
                socket.publish_with_headers(heard.reply.encode(), b"NATS/1.0 503\r\n\r\n")
            return []

        async with (
            serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
            mallory(server.url, silence) as attacker,
            trusting(server.url, PDP) as pep,
        ):
            pep.asker.hedge.seconds = 30.0
            asking = asyncio.create_task(pep.check(READ))
            await eventually(lambda: len(attacker.questions) >= 2)
            await pep.asker.connection.flush()
            await attacker.bus.flush()
            assert len(attacker.questions) <= 4  # one, all, and the same on the question's own subject
            gated.gate.set()
            assert (await asking).allowed


ALL = ["domain:default"]
CLERK = Identity.generate()


def in_the_name_of_the_pdp(at: float) -> Announcement:
    mine = warrant(ROOT, holder=EVE).announcement(ALL, 60.0, at)
    return msgspec.structs.replace(mine, introduction=warrant(ROOT, holder=PDP).introduction)


FALSE = {
    "a stranger's": lambda now: Announcement(ALL, 60.0),
    "one by whom nobody empowered": lambda now: warrant(EVE).announcement(ALL, 60.0, now),
    "one in the PDP's name": in_the_name_of_the_pdp,
    "one beyond its right": lambda now: warrant(ROOT, "/hr/*", CLERK).announcement(ALL, 60.0, now),
    "one of yesterday": lambda now: warrant(ROOT, holder=PDP).announcement(ALL, 60.0, now - 86_400),
}


@pytest.mark.parametrize("name", FALSE)
async def test_nobody_leads_questions_to_himself_by_announcing_what_he_may_not(server, name):
    """The true PDP has too many scopes to announce; whoever is believed to serve them all has the questions alone."""
    scopes = [f"object:/{number}" for number in range(300)] + ["prefix:/sales"]
    async with (
        serving(server.url, Readers(), *scopes, warrant=warrant(ROOT, holder=PDP)),
        mallory(server.url) as attacker,
        trusting(server.url, PDP, deadline=2.0) as pep,
    ):
        attacker.bus.send(ANNOUNCE, pack(FALSE[name](time())))
        await attacker.bus.flush()
        await pep.asker.connection.flush()
        assert (await pep.check(READ)).allowed


async def test_what_a_pdp_may_announce_is_used(server):
    async with (
        serving(server.url, Readers(), "prefix:/sales", warrant=warrant(ROOT, "/sales/*", PDP)),
        trusting(server.url, PDP) as pep,
    ):
        await eventually(lambda: pep.asker.scopes.narrowest("default", READ))
        assert pep.asker.authenticity.refused_announcements == 0


async def test_where_nobody_is_there_the_answer_is_no_when_the_time_is_over(own_server):
    async with trusting(own_server.url, deadline=0.2) as pep:
        decision = await pep.check(READ)
        assert (decision.allowed, decision.reason) == (False, Reason.NO_PDP)


async def test_a_stolen_chain_is_of_no_use_without_its_key(server):
    stolen = right(ROOT, PDP)
    forged = [
        Introduction.of(EVE, (stolen,)),
        msgspec.structs.replace(Introduction.of(EVE, (stolen,)), key=PDP.public.raw),
    ]
    gated, other = Gated(), Identity.generate()

    def answer(heard: Heard) -> list[bytes]:
        tag = unwrap(by_stranger(heard))[1]
        return [wrap(key, tag, heard.lie()) for key in (PDP.public.raw, EVE.public.raw)]

    async with (
        serving(server.url, gated, warrant=warrant(ROOT, holder=other)),
        mallory(server.url, answer) as attacker,
        trusting(server.url, other) as pep,
    ):
        for each in forged:
            attacker.bus.send(ANNOUNCE, pack(Announcement([], 3.0, each.encode())))
        await eventually(lambda: pep.asker.authenticity.refused_introductions >= 2)
        assert not (await answered(pep, gated, Refusal.UNKNOWN)).allowed


async def test_a_pdp_whose_right_ended_or_came_from_nobody_trusted_is_not_believed(server):
    gated = Gated()
    async with (
        serving(server.url, Liars(), warrant=warrant(ROOT, end=1)),
        serving(server.url, Liars(), warrant=warrant(EVE)),
        serving(server.url, Liars()),
        serving(server.url, gated, warrant=warrant(ROOT, holder=PDP)),
        trusting(server.url, PDP, strategy="flood") as pep,
    ):
        asking = asyncio.create_task(pep.check(WRITE))
        await eventually(lambda: set(refused(pep)) == {Refusal.UNKNOWN, Refusal.UNAUTHENTICATED})
        await eventually(lambda: refused(pep)[Refusal.UNKNOWN] > 1)
        assert not asking.done()
        gated.gate.set()
        assert not (await asking).allowed


async def test_a_pdp_is_believed_only_about_what_it_may_decide(server):
    seller, clerk = Identity.generate(), Identity.generate()
    pay = Request.of("ann", "/hr/pay", "write")
    async with serving(server.url, Liars(), warrant=warrant(ROOT, "/sales/*", seller)):
        async with trusting(server.url, seller, deadline=0.3) as pep:
            sale, wage = await pep.check_many([WRITE, pay])
            assert (sale.allowed, sale.policies) == (True, ("forged",))
            assert (wage.allowed, wage.reason) == (False, Reason.NO_PDP)
            assert "trusted" in wage.detail
            assert refused(pep)[Refusal.OUTSIDE] > 0
        async with (
            serving(server.url, Readers(), warrant=warrant(ROOT, "/hr/*", clerk)),
            trusting(server.url, seller, clerk) as pep,
        ):
            sale, wage = await pep.check_many([WRITE, pay])
            assert (sale.allowed, wage.allowed, wage.reason) == (True, False, Reason.NO_POLICY)


async def test_whoever_is_not_known_is_asked_to_introduce_itself(server):
    asked: list[bytes] = []
    async with (
        serving(server.url, Readers(), warrant=warrant(ROOT, holder=PDP)),
        trusting(server.url, PDP) as pep,
        Connection(server.url) as bus,
    ):
        await bus.listen(WHO, lambda s, reply, data, h: asked.append(data))
        await bus.flush()
        pep.asker.authenticity.deciders._known.clear()
        assert (await pep.check(READ)).allowed
        await bus.flush()
        assert asked


async def test_a_compromised_pdp_that_is_revoked_under_load_is_not_believed_from_then_on():
    liar, honest = Identity.generate(), Identity.generate()
    bad = warrant(ROOT, holder=liar)
    results: list[Decision] = []
    async with (
        NatsServer(jetstream=True) as server,
        serving(server.url, Liars(), warrant=bad),
        serving(server.url, Readers(), warrant=warrant(ROOT, holder=honest)),
        trusting(server.url, liar, honest) as pep,
        Connection(server.url) as bus,
    ):

        async def ask() -> None:
            while True:
                results.append(await pep.check(WRITE))

        load = [asyncio.create_task(ask()) for _ in range(8)]
        try:
            await eventually(lambda: any(each.allowed for each in results))
            await publish_notice(bus, Notice.event(ROOT, right(ROOT, liar), int(time())))
            deciders = pep.asker.authenticity.deciders
            await eventually(lambda: deciders.get(liar.public.raw, time()) is None)
            results.clear()
            await eventually(lambda: refused(pep)[Refusal.UNKNOWN] > 5 and len(results) > 50)
        finally:
            for each in load:
                each.cancel()
        assert {(each.allowed, each.reason) for each in results} == {(False, Reason.NO_POLICY)}
        # And whoever connects later hears of it too.
        async with trusting(server.url, honest) as later:
            await eventually(lambda: later.asker.authenticity.deciders.get(liar.public.raw, time()) is None)
            assert not (await later.check(WRITE)).allowed


async def test_refused_answers_are_reported_but_a_flood_of_them_fills_no_log(server, caplog):
    async with (
        mallory(server.url, lambda heard: [heard.lie()] * 100),
        trusting(server.url, deadline=0.2) as pep,
    ):
        decision = await pep.check(WRITE)
        assert not decision.allowed
        assert "unauthenticated" in decision.detail
        assert refused(pep)[Refusal.UNAUTHENTICATED] >= 100
        counted = {
            (sample.name, sample.labels.get("why")): sample.value
            for family in EnforcerMetrics(pep).collect()
            for sample in family.samples
        }
        assert counted["authfabric_pep_refused_answers_total", "unauthenticated"] >= 100
    assert len([each for each in caplog.records if "answers are refused" in each.message]) == 1
