"""Which PDPs are believed, and about what: those whom a trusted root empowered, while that lasts."""

from __future__ import annotations

import asyncio
from time import time

import msgspec

from authz import Decision, Identity, Reason, Request
from authz.authority.introduction import Introduction
from authz.crypto.agreement import AgreementKey
from authz.spki import Capability, Notice, parse_authority
from bus import Connection, NatsServer
from bus.feeds.revocations import publish_notice
from bus.wire.answer_mac import unwrap, wrap
from bus.wire.envelope import pack
from bus.wire.messages import Announcement
from bus.wire.subjects import ANNOUNCE, WHO
from pdp.replica.answer_authority import AnswerAuthority
from pep.metrics import EnforcerMetrics
from pep.trust.authenticity import Refusal
from tests.deciders import Gated, Readers
from tests.false_server import lured
from tests.pep.fabric import serving
from tests.pep.mallory import (
    EVE,
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
from tests.warrants import right, warrant


async def test_a_stolen_chain_is_of_no_use_without_its_key(server):
    stolen = right(ROOT, PDP)
    forged = [
        Introduction.of(EVE, (stolen,), time()),
        msgspec.structs.replace(Introduction.of(EVE, (stolen,), time()), key=PDP.public.raw),
    ]
    gated, other = Gated(), Identity.generate()

    def answer(heard: Heard) -> list[bytes]:
        tag = unwrap(by_stranger(heard))[1]
        return [wrap(key, tag, heard.lie()) for key in (PDP.public.raw, EVE.public.raw)]

    async with (
        serving(server.url, gated, authority=warrant(ROOT, holder=other)),
        mallory(server.url, answer) as attacker,
        trusting(server.url, other) as pep,
    ):
        for each in forged:
            attacker.bus.send(ANNOUNCE, pack(Announcement([], 3.0, each.encode())))
        await eventually(lambda: pep.asker.authenticity.refused_introductions >= 2)
        counted = {
            each.name: each.samples[0].value for each in EnforcerMetrics(pep).collect() if each.samples
        }
        assert counted["authfabric_pep_refused_introductions"] >= 2
        assert not (await answered(pep, gated, Refusal.UNKNOWN)).allowed


async def test_an_introduction_in_force_gives_way_to_no_other_however_well_signed(server):
    """Somebody came to have one signature of the PDP too many, over a key by which he can answer."""
    gated, held = Gated(), warrant(ROOT, holder=PDP)
    true = Introduction.read(held.introduction)
    stolen = msgspec.structs.replace(true, agreement=AgreementKey.of(EVE).public, at=time() + 1)
    forged = msgspec.structs.replace(stolen, signature=PDP.sign(stolen.signed()))

    def answer(heard: Heard) -> list[bytes]:
        return [wrap(PDP.public.raw, unwrap(by_stranger(heard))[1], heard.lie())]

    async with (
        serving(server.url, gated, authority=held),
        mallory(server.url, answer) as attacker,
        trusting(server.url, PDP) as pep,
    ):
        attacker.bus.send(ANNOUNCE, pack(Announcement([], 3.0, forged.encode())))
        await eventually(lambda: pep.asker.authenticity.refused_introductions)
        assert not (await answered(pep, gated, Refusal.FORGED)).allowed


async def test_a_false_server_gets_no_introduction_that_a_pep_believes(server):
    """A PDP is lured to it, and asked to sign as its nonce an introduction over a key by which the server can answer.

    The PEP has met nobody before.
    """
    true = Introduction.read(warrant(ROOT, holder=PDP).introduction)
    wanted = msgspec.structs.replace(true, agreement=AgreementKey.of(EVE).public, at=time())
    shown = await lured(PDP, wanted.signed().decode("latin-1"))
    forged = msgspec.structs.replace(wanted, signature=shown.signature)

    def answer(heard: Heard) -> list[bytes]:
        return [wrap(PDP.public.raw, unwrap(by_stranger(heard))[1], heard.lie())]

    async with mallory(server.url, answer) as attacker, trusting(server.url) as pep:
        authenticity = pep.asker.authenticity
        attacker.bus.send(ANNOUNCE, pack(Announcement([], 3.0, forged.encode())))
        await eventually(lambda: authenticity.refused_introductions or len(authenticity.deciders))
        assert not (await pep.check(WRITE, deadline=0.5)).allowed


async def test_a_pdp_whose_right_ended_or_came_from_nobody_trusted_is_not_believed(server):
    gated = Gated()
    async with (
        serving(server.url, Liars(), authority=warrant(ROOT, end=1)),
        serving(server.url, Liars(), authority=warrant(EVE)),
        serving(server.url, Liars()),
        serving(server.url, gated, authority=warrant(ROOT, holder=PDP)),
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
    async with serving(server.url, Liars(), authority=warrant(ROOT, "/sales/*", seller)):
        async with trusting(server.url, seller, deadline=0.3) as pep:
            sale, wage = await pep.check_many([WRITE, pay])
            assert (sale.allowed, sale.policies) == (True, ("forged",))
            assert (wage.allowed, wage.reason) == (False, Reason.NO_PDP)
            assert "trusted" in wage.detail
            assert refused(pep)[Refusal.OUTSIDE] > 0
        async with (
            serving(server.url, Readers(), authority=warrant(ROOT, "/hr/*", clerk)),
            trusting(server.url, seller, clerk) as pep,
        ):
            sale, wage = await pep.check_many([WRITE, pay])
            assert (sale.allowed, wage.allowed, wage.reason) == (True, False, Reason.NO_POLICY)


async def test_no_spelling_of_an_object_steps_around_an_exception(server):
    """`/hr/pay/` and `/hr//pay` are no names below `/hr/`, and yet services may take them for one."""
    seller, buyer, agent = Identity.generate(), Identity.generate(), Identity.generate()
    spelt = [Request.of("ann", name, "write") for name in ("/hr/pay", "/hr/pay/", "/hr//pay", "//hr/pay")]
    allowed = parse_authority("object: * except /hr/*\naction: decide")
    granted = Capability(ROOT.public, buyer.public, True, allowed).sign(ROOT)
    passed_on = AnswerAuthority(agent, [granted, right(buyer, agent, "/hr//pay")], time())
    async with (
        serving(server.url, Liars(), authority=warrant(ROOT, "* except /hr/*", seller)),
        serving(server.url, Liars(), authority=passed_on),
        trusting(server.url, seller, deadline=1.0) as pep,
    ):
        assert (await pep.check(WRITE)).policies == ("forged",)
        assert [each.allowed for each in await pep.check_many(spelt)] == [False] * len(spelt)


async def test_whoever_is_not_known_is_asked_to_introduce_itself(server):
    asked: list[bytes] = []
    async with (
        serving(server.url, Readers(), authority=warrant(ROOT, holder=PDP)),
        trusting(server.url, PDP) as pep,
        Connection(server.url) as bus,
    ):
        await bus.listen(WHO, lambda s, reply, data, h: asked.append(data))
        await bus.flush()
        pep.asker.authenticity.deciders._known.clear()
        assert (await pep.check(READ)).allowed
        await bus.flush()
        assert asked


async def test_a_clock_that_is_ahead_for_a_while_brings_no_revoked_pdp_back(monkeypatch):
    ahead, liar, honest = {"seconds": 0.0}, Identity.generate(), Identity.generate()
    monkeypatch.setattr("pep.trust.authenticity.time", lambda: time() + ahead["seconds"])
    end = int(time()) + 3600
    async with (
        NatsServer(jetstream=True) as server,
        serving(server.url, Liars(), authority=warrant(ROOT, holder=liar, end=end)),
        serving(server.url, Readers(), authority=warrant(ROOT, holder=honest)),
        trusting(server.url, liar, honest) as pep,
        Connection(server.url) as bus,
    ):
        authenticity, taken = pep.asker.authenticity, Notice.event(ROOT, right(ROOT, liar, end=end), 1)
        await publish_notice(bus, taken)
        await eventually(lambda: authenticity.deciders.get(liar.public.raw, time()) is None)
        ahead["seconds"] = 7200.0
        news = right(ROOT, EVE)
        await publish_notice(bus, Notice.event(ROOT, news, 2))
        known = authenticity.deciders._revocations
        await eventually(lambda: known.revoker([news.id], [ROOT.public]))
        ahead["seconds"], before = 0.0, authenticity.refused_introductions
        authenticity.ask_who()
        await eventually(lambda: authenticity.refused_introductions > before)
        assert not (await pep.check(WRITE)).allowed


async def test_a_compromised_pdp_that_is_revoked_under_load_is_not_believed_from_then_on():
    liar, honest = Identity.generate(), Identity.generate()
    bad = warrant(ROOT, holder=liar)
    results: list[Decision] = []
    async with (
        NatsServer(jetstream=True) as server,
        serving(server.url, Liars(), authority=bad),
        serving(server.url, Readers(), authority=warrant(ROOT, holder=honest)),
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
