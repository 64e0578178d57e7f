"""What was revoked reaches a PEP whatever else is stored; and while it cannot be read, nobody new is believed."""

from __future__ import annotations

import hashlib
from time import time

from authfabric.chaos.testbed.proxy import link
from authz import Identity, Reason
from authz.authority.introduction import Introduction
from authz.spki import Capability, Certificate, Notice, parse_authority
from authz.spki.capability import encode
from bus import Connection, NatsServer
from bus.feeds.revocations import publish_notice
from bus.wire.envelope import pack
from bus.wire.messages import Announcement
from bus.wire.subjects import ANNOUNCE, REVOCATIONS, written
from pdp.replica.answer_authority import AnswerAuthority
from pep import Enforcer
from pep.metrics import EnforcerMetrics
from pep.trust import authenticity
from pep.trust.authenticity import Refusal
from pep.trust.revocation_watch import MAX_FOLLOWED
from tests.deciders import Readers
from tests.pep.fabric import serving
from tests.pep.mallory import EVE, PDP, READ, ROOT, WRITE, Liars, refused, trusting
from tests.waiting import eventually, once_it_works
from tests.warrants import right, warrant

STRANGERS = 4_200
"""More than a PEP has room for deciders."""
DECIDE = parse_authority("object: *\naction: decide")


def delegation(issuer: Identity, to: Identity) -> Certificate:
    return Capability(issuer.public, to.public, True, DECIDE).sign(issuer)


def store(bus: Connection, notice: Notice) -> None:
    """Write a notice to the store without waiting, as anybody can where strangers are let in."""
    data = encode(notice)
    bus.send(written(REVOCATIONS, f"{notice.issuer}.{hashlib.sha256(data).hexdigest()}"), data)


async def stored(bus: Connection, count: int) -> None:
    """Return when the store holds so many."""
    stream = f"KV_{REVOCATIONS}"
    while (await bus.jetstream().stream_info(stream)).state.messages < count:
        await bus.flush()


def measured(pep: Enforcer, name: str) -> float:
    return next(each.samples[0].value for each in EnforcerMetrics(pep).collect() if each.name == name)


async def test_a_flood_of_strangers_notices_hides_no_revocation():
    liar = Identity.generate()
    async with (
        NatsServer(jetstream=True) as server,
        serving(server.url, Liars(), authority=warrant(ROOT, holder=liar)),
        Connection(server.url) as bus,
    ):
        await publish_notice(bus, Notice.first(Identity.generate(), 1))
        for _ in range(STRANGERS):
            store(bus, Notice.first(Identity.generate(), 1))
        await stored(bus, STRANGERS)
        async with trusting(server.url, liar, deadline=0.5) as pep:
            assert (await pep.check(WRITE)).allowed
            await publish_notice(bus, Notice.event(ROOT, right(ROOT, liar), int(time())))
            deciders = pep.asker.authenticity.deciders
            await eventually(lambda: deciders.get(liar.public.raw, time()) is None)
            assert not (await pep.check(WRITE)).allowed
        async with Enforcer.connect(server.url, trust=[ROOT.public], deadline=0.5) as pep:
            assert not (await pep.check(WRITE)).allowed


async def test_however_long_reading_the_store_takes_nobody_is_believed_before(jetstream_server):
    root, liar, honest = (Identity.generate() for _ in range(3))
    async with (
        Connection(jetstream_server.url) as bus,
        link(jetstream_server.url) as slow,
        serving(jetstream_server.url, Liars(), authority=warrant(root, holder=liar)),
        serving(jetstream_server.url, Readers(), authority=warrant(root, holder=honest)),
    ):
        for number in range(1, 51):
            await publish_notice(bus, Notice.event(root, right(root, Identity.generate()), number))
        await publish_notice(bus, Notice.event(root, right(root, liar), int(time())))
        slow.delay = 0.02
        async with Enforcer.connect(slow.url, trust=[root.public], deadline=20.0, recycling=None) as pep:
            answers = [await pep.check(WRITE) for _ in range(10)]
        assert {(each.allowed, each.reason) for each in answers} == {(False, Reason.NO_POLICY)}


NO_REVOCATIONS = f"""
authorization {{ users: [
  {{ user: all, password: p }}
  {{ user: pep, password: p, permissions: {{ publish: {{ deny: "$JS.API.STREAM.MSG.GET.KV_{REVOCATIONS}" }} }} }}
] }}
"""


async def test_a_pep_that_cannot_read_revocations_believes_nobody_new_and_says_why(caplog, monkeypatch):
    monkeypatch.setattr(authenticity, "UNCHECKED_SECONDS", 0.0)
    async with NatsServer(jetstream=True, extra=NO_REVOCATIONS) as server:
        everything, nothing = (server.url.replace("//", f"//{name}:p@") for name in ("all", "pep"))
        async with (
            Connection(everything) as bus,
            serving(everything, Readers(), authority=warrant(ROOT, holder=PDP)),
            trusting(everything, PDP) as other,
        ):
            await publish_notice(bus, Notice.first(ROOT, 1))
            async with Enforcer.connect(
                nothing, trust=[ROOT.public], deadline=1.0, recycling=None, audit=False
            ) as pep:
                decision = await pep.check(READ)
                assert not decision.allowed
                assert "nobody new is believed, since what was revoked is not known" in decision.detail
                assert refused(pep)[Refusal.UNCHECKED]
                assert measured(pep, "authfabric_pep_revocations_unread") == 1
                assert "could be revoked by" in caplog.text
            assert (await other.check(READ)).allowed
            assert measured(other, "authfabric_pep_revocations_unread") == 0


async def test_whoever_names_issuer_after_issuer_takes_no_room_from_others(jetstream_server):
    url, root, honest, pdp = jetstream_server.url, *(Identity.generate() for _ in range(3))
    good = AnswerAuthority(pdp, [delegation(root, honest), right(honest, pdp)], time())
    entry = delegation(root, EVE)
    async with (
        Connection(url) as bus,
        serving(url, Readers(), authority=good),
        Enforcer.connect(url, trust=[root.public], deadline=20.0, recycling=None) as pep,
    ):
        deciders, watch = pep.asker.authenticity.deciders, pep.asker.authenticity.watch
        await eventually(lambda: deciders.get(pdp.public.raw, time()))
        chains = []
        for _ in range(MAX_FOLLOWED + 10):
            between, last = Identity.generate(), Identity.generate()
            chains.append((last, (entry, delegation(EVE, between), right(between, last))))

        async def say() -> None:
            """Announce all of them; whom the first issuers name counts once it is known what those revoked."""
            for last, chain in chains:
                introduction = Introduction.of(last, chain, time()).encode()
                bus.send(ANNOUNCE, pack(Announcement([], 3.0, introduction)))
            await bus.flush()
            await pep.asker.connection.flush()
            assert len(watch._followed.get(EVE.public, ())) == MAX_FOLLOWED

        await once_it_works(say, AssertionError)
        await say()
        assert watch.follow(honest.public, honest.public)
        assert (await pep.check(READ)).allowed
        await publish_notice(bus, Notice.event(honest, right(honest, pdp), int(time())))
        await eventually(lambda: deciders.get(pdp.public.raw, time()) is None)
