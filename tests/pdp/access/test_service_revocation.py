"""Whoever is revoked is put out everywhere: by one replica or several, at one server or a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from time import monotonic, time

import msgspec
import pytest

from authz import Identity
from authz.spki import Capability, Certificate, Notice, Validity, encode_chain, parse_authority
from authz.spki.capability import encode
from authz.spki.revocation import Revoked
from bus import Connection, NatsServer, cluster
from bus.errors import NoResponders
from bus.feeds.revocations import publish_notice
from bus.identity.credentials import Credentials
from bus.nats.access_client import AccessRefused, ask_capability, ask_revocation
from bus.server.nats_server import free_ports
from bus.server.server_config import ServiceKeys
from bus.stores.record_store import Record, RecordStore
from bus.wire.subjects import REVOCATIONS, place, revoke
from pdp.access import AccessRules, AccessService
from pdp.access.control import mark
from pdp.access.domain import Issuer
from pdp.access.entitlement import Enrolment
from pdp.access.issuing_service import IssuingService
from tests.pdp.access.attempts import ASK, answering, log_of, may_publish, member, refused
from tests.secured import PDP, PEP, Secured, secured
from tests.waiting import eventually, once_it_works

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestRevocation:
    async def test_it_disconnects_at_once_and_for_good(self, world):
        certificate = world.grant(holder := Identity.generate(), PEP)
        credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
        owner = world.credentials("resource: *\naction: *", delegate=True)
        async with (
            world.connect(credentials) as bus,
            world.connect(PEP) as other,
            world.connect(owner) as boss,
        ):
            await ask_revocation(boss, world.revocation(certificate))
            await eventually(lambda: not bus.ready)
            assert other.ready
            await refused(world, credentials)

    async def test_each_is_disconnected_and_logged_once_however_many_follow(self, world, caplog):
        held = [world.credentials(PEP) for _ in range(4)]
        boss = world.credentials("resource: *\naction: *", delegate=True)
        async with contextlib.AsyncExitStack() as stack:
            owner = await stack.enter_async_context(world.connect(boss))
            members = [await stack.enter_async_context(world.connect(each)) for each in held]
            for credentials, bus in zip(held, members, strict=True):
                await ask_revocation(owner, Notice.of_key(world.service, credentials.identity.public, 1))
                await eventually(lambda bus=bus: not bus.ready)
        said = [record.args for record in caplog.records if "what it presented was revoked" in record.msg]
        assert said == [(str(each.identity.public),) for each in held]

    async def test_whoever_is_refused_tries_less_often_and_not_at_all_once_closed(self, world, access):
        certificate = world.grant(holder := Identity.generate(), PEP)
        credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
        async with world.connect(credentials) as bus:
            await publish_notice(access.member, world.revocation(certificate))
            await eventually(lambda: bus._rebuild is not None)
        before = access.refused
        for _ in range(5):
            async with world.connect(PEP):
                pass
        assert access.refused == before

    async def test_everything_below_a_revoked_certificate_falls_with_it(self, world):
        between, holder = Identity.generate(), Identity.generate()
        upper = world.grant(between, PEP, delegate=True)
        lower = Capability(between.public, holder.public, False, parse_authority(PEP)).sign(between)
        owner = world.credentials("resource: *\naction: *", delegate=True)
        credentials = Credentials(holder, encode_chain([upper, lower]), world.tls(holder))
        async with world.connect(credentials) as bus, world.connect(owner) as boss:
            await ask_revocation(boss, world.revocation(upper))
            await eventually(lambda: not bus.ready)

    async def test_that_of_a_key_is_of_what_its_issuer_gave_it_and_of_nothing_else(self, world):
        """Whoever may pass on what it holds takes back what it gave, and nothing that the domain did."""
        between, holder = Identity.generate(), Identity.generate()
        upper = world.grant(between, PEP, delegate=True)
        lower = Capability(between.public, holder.public, False, parse_authority(PEP)).sign(between)
        given = Credentials(holder, encode_chain([upper, lower]), world.tls(holder))
        granted = world.credentials(PEP, holder)
        giver = Credentials(between, encode_chain([upper]), world.tls(between))
        async with (
            world.connect(given) as bus,
            world.connect(granted) as other,
            world.connect(giver) as middle,
        ):
            for key in (holder, between):
                await ask_revocation(middle, Notice.of_key(between, key.public, 1))
            await eventually(lambda: not bus.ready)
            await refused(world, given, 1.0)
            assert (other.ready, other.reconnects, middle.ready) == (True, 0, True)
            async with world.connect(granted) as again:
                assert again.ready

    async def test_a_forged_one_is_refused(self, world):
        certificate = world.grant(holder := Identity.generate(), PEP)
        forged = msgspec.structs.replace(world.revocation(certificate), signature=bytes(64))
        owner = world.credentials("resource: *\naction: *", delegate=True)
        credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
        async with world.connect(credentials) as bus, world.connect(owner) as boss:
            with pytest.raises(AccessRefused, match="signature"):
                await ask_revocation(boss, forged)
            assert bus.ready

    async def test_one_by_a_key_that_issued_nothing_changes_nothing(self, world):
        certificate = world.grant(holder := Identity.generate(), PEP)
        owner = world.credentials("resource: *\naction: *", delegate=True)
        credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
        other = world.grant(known := Identity.generate(), PEP)
        async with (
            world.connect(owner) as boss,
            world.connect(credentials) as bus,
            world.connect(Credentials(known, encode_chain([other]), world.tls(known))) as neighbour,
        ):
            await ask_revocation(boss, Notice.event(owner.identity, certificate, 1))
            await ask_revocation(boss, world.revocation(other))
            await eventually(lambda: not neighbour.ready)
            assert (bus.ready, bus.reconnects) == (True, 0)
            async with world.connect(credentials) as bus:
                assert bus.ready


async def notices(access: AccessService) -> list[Record]:
    return await RecordStore(access.member, REVOCATIONS).since(0)


async def flood(bus: Connection, made_up: Iterable[Identity], *above: Certificate) -> int:
    """Have a notice of each key stored, if the service does that; with a chain, each is empowered by the bus's own."""
    submitter, stored = bus.credentials.identity, 0
    for key in made_up:
        notice, chain = Notice.first(key, 1), ()
        if above:
            link = Capability(submitter.public, key.public, True, parse_authority(PEP)).sign(submitter)
            chain = (encode_chain([*above, link]),)
        with contextlib.suppress(AccessRefused):
            await ask_revocation(bus, notice, *chain)
            stored += 1
    return stored


class TestFloods:
    async def test_notices_of_made_up_keys_are_not_stored_and_genuine_ones_count_at_once(self, tmp_path):
        """One member sends those of thousands of keys; then a delegate revokes, and the owner."""
        async with secured(tmp_path) as (world, access):
            between, holder = Identity.generate(), Identity.generate()
            upper = world.grant(between, PEP, delegate=True)
            lower = Capability(between.public, holder.public, False, parse_authority(PEP)).sign(between)
            given = Credentials(holder, encode_chain([upper, lower]), world.tls(holder))
            giver = Credentials(between, encode_chain([upper]), world.tls(between))
            certificate = Capability(
                world.domain.public, world.service.public, True, parse_authority(PEP)
            ).sign(world.domain)
            async with (
                world.connect(world.credentials(delegate=True)) as attacker,
                world.connect(given) as bus,
                world.connect(giver) as middle,
            ):
                made_up = (Identity.generate() for _ in range(2000))
                assert await flood(attacker, made_up) == 0
                assert not await notices(access)
                assert not access.control.verifier.revocations.lists
                await ask_revocation(middle, Notice.event(between, lower, 1))
                await eventually(lambda: not bus.ready)
                assert attacker.ready
                await ask_revocation(attacker, Notice.event(world.domain, certificate, 1))
                assert access.control.verifier.revocations.revoker([certificate.id], [world.domain.public])
                assert len(await notices(access)) == 2

    async def test_whoever_empowers_made_up_keys_has_so_many_notices_stored_and_takes_no_room_from_others(
        self, tmp_path
    ):
        async with secured(tmp_path, rules=AccessRules(notices=5)) as (world, access):
            attacker = Identity.generate()
            held = world.grant(attacker, PEP, delegate=True)
            chain = encode_chain([held])
            between, holder = Identity.generate(), Identity.generate()
            upper = world.grant(between, PEP, delegate=True)
            lower = Capability(between.public, holder.public, False, parse_authority(PEP)).sign(between)
            given = Credentials(holder, encode_chain([upper, lower]), world.tls(holder))
            async with (
                world.connect(Credentials(attacker, chain, world.tls(attacker))) as bad,
                world.connect(world.credentials(delegate=True)) as other,
                world.connect(given) as bus,
            ):
                made_up = [Identity.generate() for _ in range(12)]
                assert await flood(bad, made_up, held) == 5
                with pytest.raises(AccessRefused, match="more than 5 notices"):
                    await ask_revocation(bad, Notice.event(attacker, lower, 1))
                newer = Notice.first(made_up[0], 1).following(made_up[0], 2)
                await ask_revocation(bad, newer)
                assert len(await notices(access)) == 5
                await ask_revocation(bad, Notice.first(attacker, 1, [lower]))
                await ask_revocation(other, Notice.event(between, lower, 1), encode_chain([upper, lower]))
                await eventually(lambda: not bus.ready)
                await ask_revocation(bad, world.revocation(upper))
                assert len(await notices(access)) == 8

    async def test_nobody_submits_in_the_place_of_another(self, world):
        async with world.connect(world.credentials(delegate=True)) as bus:
            assert not await may_publish(bus, revoke(place(Identity.generate().public)))
            assert await may_publish(bus, revoke(place(bus.credentials.identity.public)))


class TestExpiry:
    async def test_a_clock_that_is_ahead_for_a_while_undoes_no_revocation(self, tmp_path):
        """Neither in the store, for all who start later, nor in the memory of the replica whose clock it is."""
        clock = {"ahead": 0.0}
        async with secured(tmp_path) as (world, access):
            certificate = world.grant(holder := Identity.generate(), PEP)
            credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
            async with world.access(clock=lambda: time() + clock["ahead"]) as wrong:
                await access.__aexit__(None, None, None)
                clock["ahead"] = 10 * 86_400.0
                await publish_notice(wrong.member, world.revocation(certificate))
                await wrong.revocations()
                wrong.control.forget(wrong._clock())
                await wrong._notices.sweep()
                clock["ahead"] = 0.0
                await refused(world, credentials)
                async with world.access():
                    await wrong.__aexit__(None, None, None)
                    await refused(world, credentials)

    async def test_notices_of_what_has_long_expired_are_dropped_and_others_stay(self, tmp_path, monkeypatch):
        monkeypatch.setattr("authz.spki.revocation.KEPT", 0)
        async with secured(tmp_path, rules=AccessRules(notices=2)) as (world, access):
            giver = Identity.generate()
            held = world.grant(giver, PEP, delegate=True)

            def given(end: float | None) -> Certificate:
                validity = Validity(0, None if end is None else int(end))
                to = Identity.generate().public
                return Capability(giver.public, to, False, parse_authority(PEP), validity).sign(giver)

            long_ago, just_now, live = given(time() - 2 * 86_400), given(time() - 60), given(time() + 3600)
            kept = [Notice.event(giver, each, 1) for each in (just_now, live)]
            bad = Credentials(giver, encode_chain([held]), world.tls(giver))
            async with world.connect(bad) as bus:
                await ask_revocation(bus, Notice.event(giver, long_ago, 1))
                await ask_revocation(bus, kept[0])
                with pytest.raises(AccessRefused, match="no room"):
                    await ask_revocation(bus, kept[1])
                async with world.access() as second:
                    await access.__aexit__(None, None, None)
                    await second._notices.sweep()
                    later = monotonic() + 86_400.0
                    monkeypatch.setattr("pdp.access.notice_store.monotonic", lambda: later)
                    await second._notices.sweep()
                    second.control.forget(time())
                    stored = [record.data for record in await notices(second) if record.data]
                    assert stored == [encode(kept[0])]
                    known = second.control.verifier.revocations
                    assert not known.revoked
                    assert not second.control._revoked
                    await publish_notice(second.member, kept[1])
                    await second.revocations()
                    assert known.revoker([live.id], [giver.public]) == giver.public

    async def test_a_revocation_lasts_as_long_as_the_longest_word_about_it(self, tmp_path):
        world = Secured(tmp_path)
        control, certificate = world.control(), world.grant(Identity.generate(), PEP, seconds=1000)
        of_key = Revoked.of_key(certificate.unverified().subject)
        marks = [mark(of_key.id, world.service.public)]
        for notice in (
            Notice(world.service.public, 1, (of_key,)),
            Notice(world.service.public, 2, (Revoked(of_key.id, int(time()) + 10),)),
        ):
            control.accept(notice._sign(world.service), time())
        control.forget(time() + 100)
        assert control.revoked(marks)


class TestReplicas:
    async def test_another_one_decides_when_one_has_died_and_knows_what_was_revoked(self, tmp_path):
        async with secured(tmp_path) as (world, first):
            certificate = world.grant(holder := Identity.generate(), PEP)
            credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
            owner = world.credentials("resource: *\naction: *", delegate=True)
            async with world.connect(owner) as boss:
                await ask_revocation(boss, world.revocation(certificate))
                async with world.access() as second, world.connect(world.credentials(PEP)) as before:
                    await first.__aexit__(None, None, None)
                    async with world.connect(PEP) as bus:
                        assert bus.ready
                        await refused(world, credentials)
                    assert before.ready
                    assert second.admitted >= 1

    async def test_one_that_starts_later_ends_what_was_revoked_meanwhile(self, tmp_path):
        async with secured(tmp_path) as (world, first):
            certificate = world.grant(holder := Identity.generate(), PEP)
            credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
            async with world.connect(credentials) as bus:
                notice = world.revocation(certificate)
                await first.__aexit__(None, None, None)
                async with member(world) as own:
                    await publish_notice(own, notice)
                assert bus.ready
                async with world.access():
                    await eventually(lambda: not bus.ready)

    async def test_one_that_cannot_read_revocations_renews_nobody_and_lets_nobody_new_in(
        self, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("bus.feeds.revocations.LOOK_SECONDS", 0.2)
        world = Secured(tmp_path)
        secured_server = partial(NatsServer, extra=world.security.configuration())
        async with contextlib.AsyncExitStack() as stack:
            async with secured_server(jetstream=True) as server:
                world.url = server.url
                access = await stack.enter_async_context(world.access())
                members = {"pep": world.grant(holder := Identity.generate(), PEP)}
                issuer = Issuer("domain", world.service)
                enrolment = Enrolment(lambda: members, world.service.public)
                issuing = IssuingService(access.member, issuer, time, access.revocations, enrolment)
                await stack.enter_async_context(issuing)
                pep = await stack.enter_async_context(world.connect(world.credentials(PEP, holder)))
                assert await ask_capability(pep, time())
            port = int(server.url.rpartition(":")[2])
            await stack.enter_async_context(secured_server(port=port))  # the store is away
            await eventually(lambda: pep.ready and pep.reconnects)
            with pytest.raises(AccessRefused, match="store"):
                await once_it_works(lambda: ask_capability(pep, time()), NoResponders)
            access.control.rules = replace(world.rules, revocations_seconds=1.0)
            await eventually(lambda: monotonic() - access._feed.read_at > 1.0)
            assert "uthorization" in await refused(world, world.credentials(PEP), 1.0)
            assert pep.ready

    async def test_while_none_is_up_nobody_new_comes_in_and_those_inside_stay(self, tmp_path):
        async with secured(tmp_path) as (world, access), answering(world), world.connect(PEP) as bus:
            await access.__aexit__(None, None, None)
            await refused(world, world.credentials(PEP))
            assert await bus.ask(ASK, b"still", 5.0) == b"still"


class TestClusters:
    async def test_links_between_servers_are_verified_and_revocation_reaches_all_of_them(self, tmp_path):
        world = Secured(tmp_path)
        keys = ServiceKeys.of(world.service)
        own = Credentials(keys.member, tls=world.tls(keys.member))
        async with cluster(3, jetstream=True, security=world.security, credentials=own) as servers:
            world.url = servers[0].url
            credentials = world.credentials(PEP, holder := Identity.generate())
            async with (
                world.access() as access,
                Connection(servers[0].url, credentials=credentials) as here,
                Connection(servers[1].url, credentials=credentials) as elsewhere,
                Connection(servers[2].url, credentials=credentials) as at_the_third,
                Connection(servers[2].url, credentials=world.credentials(PDP)) as pdp,
            ):
                await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: pdp.send(reply, data))
                await pdp.flush()
                await eventually(lambda: access.census.count(str(holder.public)) == 3)
                # What is wanted at one server is known at another a moment later.
                answer = await once_it_works(lambda: elsewhere.ask(ASK, b"across", 5.0), NoResponders)
                assert answer == b"across"
                async with Connection(servers[2].url, credentials=own) as boss:
                    await ask_revocation(boss, Notice.of_key(world.service, holder.public, int(time())))
                for bus in (here, elsewhere, at_the_third):
                    await eventually(lambda bus=bus: not bus.ready)
                await eventually(lambda: access.census.count(str(holder.public)) == 0)
                assert pdp.ready

    async def test_a_server_without_a_certificate_of_the_domain_cannot_join(self, tmp_path):
        """It knows the secret, and believes us; do we believe it?"""
        (tmp_path / "other").mkdir()
        world, strange = Secured(tmp_path), Secured(tmp_path / "other")
        (port,) = free_ports(1)
        links = world.security.links
        inside = f'cluster {{ name: x, listen: "127.0.0.1:{port}", {links.configuration()} }}\n'
        own = replace(strange.security.links, authorities=links.authorities, secret=links.secret)
        routes = f'routes: ["{own.url(f"127.0.0.1:{port}")}"], {own.configuration()}'
        outside = f'cluster {{ name: x, listen: "127.0.0.1:-1", {routes} }}\n'
        async with NatsServer(name="a", extra=inside) as server, NatsServer(name="b", extra=outside) as other:
            await eventually(lambda: "tls route handshake error" in log_of(server).lower())
            async with Connection(server.url) as mine, Connection(other.url) as theirs:
                heard: list[str] = []
                await theirs.listen(">", lambda s, *_: heard.append(s))
                await theirs.flush()
                mine.send("af.secret", b"")
                await mine.flush()
                theirs.send("af.own", b"")
                await eventually(lambda: heard)
            assert heard == ["af.own"]
