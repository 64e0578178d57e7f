"""Attacks on answers, over a real server: whatever an attacker sends, the PEP acts on the true PDP's answer or on none.

The attacker hears every question and every answer, and sends what it likes to whom it likes. In each test its messages
arrive first: the true PDP decides only when the PEP has refused what was to be refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from authz import Decision, Identity, Reason
from bus import Connection
from bus.wire.answer_mac import unwrap, wrap
from bus.wire.envelope import pack
from bus.wire.messages import Answers
from bus.wire.subjects import ANNOUNCE
from pep.metrics import EnforcerMetrics
from pep.trust.authenticity import Refusal
from tests.deciders import Gated, Readers
from tests.pep.fabric import serving
from tests.pep.mallory import (
    ALLOW,
    PDP,
    READ,
    ROOT,
    WRITE,
    Heard,
    Liars,
    answered,
    by_stranger,
    mallory,
    refused,
    trusting,
)
from tests.waiting import eventually
from tests.warrants import warrant

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
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
        mallory(server.url, lambda heard: [forge(heard)]),
        trusting(server.url, PDP) as pep,
    ):
        decision = await answered(pep, gated, refusal)
        assert (decision.allowed, decision.reason) == (False, Reason.NO_POLICY)


async def test_a_true_answer_is_used_and_nothing_is_refused(server):
    async with (
        serving(server.url, Readers(), authority=warrant(ROOT, holder=PDP)),
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
    async with serving(own_server.url, Readers(), authority=warrant(ROOT, holder=PDP)):
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
    monkeypatch.setattr("pep.asking.attempts.monotonic", lambda: 1.0)
    async with (
        serving(server.url, Readers(), authority=warrant(ROOT, holder=PDP)),
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
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
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
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
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
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
        serving(server.url, Liars(), "domain:bank", authority=warrant(ROOT, holder=banker)),
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
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
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
