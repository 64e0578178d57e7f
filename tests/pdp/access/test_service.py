"""The bus refuses strangers: attacks on a real server, whose access control service is all that stands in the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from nats.js.errors import NotFoundError

from authz import Identity, Reason
from authz.spki import Capability, Notice, encode_chain, parse_authority
from bus import Connection, NatsServer, NotConnected, ReplyTimeout, cluster
from bus.access import AccessRefused, ask_revocation
from bus.credentials import Credentials
from bus.credentials_store import client_context
from bus.errors import NoResponders
from bus.permissions import RESPONSES
from bus.record_store import RecordStore
from bus.revocations import publish_notice
from bus.scopes import Scope
from bus.security import Limits, ServiceKeys
from bus.server import free_ports
from bus.state_store import StateStore
from bus.store import ReleaseStore
from bus.subjects import AUDIT, AUDIT_HEADS, CONTENT, CONTEXT, KEYS, RELEASES, ROLES, TYPES, inbox
from bus.system import Connected
from pdp.access import AccessRules, AccessService
from pdp.access.census import Share
from pdp.service import Replica
from pep import Enforcer
from tests.deciders import Readers
from tests.secured import PDP, PEP, Secured, secured
from tests.waiting import eventually, once_it_works

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = "af.ask.any.default.alice.=.x.read"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory):
    limits, share = Limits(subscriptions=50), Share(messages_per_second=2000, ban_seconds=3600)
    folder = tmp_path_factory.mktemp("domain")
    async with secured(folder, limits=limits, share=share, rules=AccessRules(connections=5)) as world:
        yield world


@pytest.fixture
def world(running) -> Secured:
    return running[0]


@pytest.fixture
def access(running) -> AccessService:
    return running[1]


async def refused(world: Secured, credentials: Credentials | None, seconds: float = 4.0) -> str:
    with pytest.raises(NotConnected) as raised:
        async with Connection(world.url, credentials=credentials, connect_seconds=seconds):
            pass
    return str(raised.value)


@contextlib.asynccontextmanager
async def answering(world: Secured, text: str = PDP):
    async with world.connect(text) as pdp:
        await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: reply and pdp.send(reply, data))
        await pdp.flush()
        yield pdp


async def may_subscribe(bus: Connection, subject: str) -> bool:
    """Whether the server lets it; it says so to the client's error handler only."""
    bus.last_error = ""
    subscription = await bus.listen(subject, lambda *_: None)
    await bus.flush()
    await asyncio.sleep(0)
    with contextlib.suppress(NotConnected):
        await subscription.cancel()
    return "permissions violation" not in bus.last_error.lower()


async def may_publish(bus: Connection, subject: str) -> bool:
    bus.last_error = ""
    bus.send(subject, b"junk")
    await bus.flush()
    await bus.flush()
    return "permissions violation" not in bus.last_error.lower()


class TestStrangers:
    async def test_one_with_nothing_is_refused(self, world):
        """It is not even told that a NATS server is there."""
        await refused(world, None, 0.5)
        address = urlsplit(world.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"CONNECT {}\r\nPING\r\n")
        assert b"INFO" not in await reader.read()
        writer.close()

    async def test_one_without_a_certificate_of_the_domain_never_reaches_the_service(self, world, access):
        before = access.refused + access.admitted
        context = ssl.create_default_context(cadata=world.authority)
        await refused(world, Credentials(Identity.generate(), b"", context), 0.5)
        assert access.refused + access.admitted == before

    async def test_one_with_a_certificate_and_no_capability_is_refused(self, world, access):
        before, stranger = access.refused, Identity.generate()
        await refused(world, Credentials(stranger, b"", world.tls(stranger)))
        assert access.refused > before

    async def test_a_server_that_the_domain_did_not_certify_is_refused_by_clients(self, world):
        """All else is right: the server would take the client."""
        other = Secured(world.folder.parent, domain=Identity.generate())
        own = world.credentials(PEP)
        context = client_context(own.identity, world.certificate(own.identity), other.authority)
        assert "certificate" in (await refused(world, replace(own, tls=context))).lower()

    async def test_a_client_with_tls_does_not_speak_to_a_server_without(self, server, world):
        with pytest.raises(NotConnected):
            async with Connection(server.url, credentials=world.credentials(), connect_seconds=0.5):
                pass


class TestChains:
    async def test_a_stolen_capability_without_its_key(self, world):
        stolen, thief = world.credentials(PEP), Identity.generate()
        await refused(world, replace(stolen, identity=thief, tls=world.tls(thief)))

    async def test_a_stolen_capability_and_link_without_its_key(self, world):
        """A server in the middle holds what a client sent it, and its own link; the nonce it passes on is no help."""
        stolen = world.credentials(PEP)
        await refused(world, replace(stolen, tls=world.tls(Identity.generate())))

    @pytest.mark.parametrize("options", [{"seconds": -1}, {"start": 4_000_000_000, "seconds": 3_000_000_000}])
    async def test_an_expired_one_and_one_not_yet_valid(self, world, options):
        await refused(world, world.credentials(PEP, **options))

    async def test_one_that_grants_itself_more(self, world):
        narrow, holder, next_ = (Identity.generate() for _ in range(3))
        wide = parse_authority("resource: *\naction: *")
        chain = [
            world.grant(narrow, PEP, delegate=True),
            Capability(narrow.public, holder.public, False, wide).sign(narrow),
        ]
        async with world.connect(Credentials(holder, encode_chain(chain), world.tls(holder))) as bus:
            assert await may_publish(bus, ASK)
            assert not await may_publish(bus, "$KV.authfabric-releases.default")
            assert not await may_subscribe(bus, "af.ask.any.default.>")
        chain.append(Capability(holder.public, next_.public, False, wide).sign(holder))
        await refused(world, Credentials(next_, encode_chain(chain), world.tls(next_)))

    async def test_ten_thousand_links(self, world):
        credentials = world.credentials(PEP)
        links = [world.grant(credentials.identity, PEP)] * 10_000
        await refused(world, replace(credentials, chain=encode_chain(links)), 0.5)


class TestSubjects:
    @pytest.mark.parametrize(
        "subject",
        [
            ">",
            "*",
            "af.>",
            "af.ask.>",
            "af.ask.any.default.>",
            "_INBOX.>",
            "_INBOX_*.>",
            "$SYS.>",
            "$JS.>",
            "$KV.>",
            "af.audit.default.x",
            "af.policy.other.members",
        ],
    )
    async def test_who_asks_may_not_listen_in(self, world, subject):
        async with world.connect(PEP) as pep:
            assert not await may_subscribe(pep, subject)

    @pytest.mark.parametrize(
        "subject",
        [
            "af.ask.any.other.alice.=.x.read",
            "af.scopes",
            "af.released.default",
            "af.access.revoke",
            "$KV.authfabric-releases.default",
            "$JS.API.STREAM.DELETE.authfabric-audit",
            "$JS.API.STREAM.PURGE.KV_authfabric-releases",
            "$JS.API.STREAM.CREATE.mine",
            "$SYS.REQ.SERVER.PING.CONNZ",
            "$SYS.REQ.USER.AUTH",
            "_INBOX.x",
        ],
    )
    async def test_who_asks_may_not_speak_elsewhere(self, world, subject):
        async with world.connect(PEP) as pep:
            assert not await may_publish(pep, subject)

    async def test_nobody_may_write_into_anothers_inbox(self, world):
        victim, attacker = world.credentials(PEP), world.connect(PDP)
        async with world.connect(victim), attacker:
            assert not await may_publish(attacker, f"{inbox(victim.identity.public)}.1.1")
            assert not await may_subscribe(attacker, f"{inbox(victim.identity.public)}.>")

    async def test_a_replica_may_answer_those_who_asked_it_and_nobody_twice_over(self, world):
        async with answering(world) as pdp, world.connect(PEP) as pep:
            replies: list[str] = []
            await pdp.listen("af.ask.all.default.>", lambda s, reply, data, h: replies.append(reply))
            await pdp.flush()
            assert await pep.ask(ASK, b"hello", 5.0) == b"hello"
            with pytest.raises(ReplyTimeout):
                await pep.ask(ASK.replace("any", "all"), b"hello", 0.2)
            for _ in range(RESPONSES):
                assert await may_publish(pdp, replies[0])
            assert not await may_publish(pdp, replies[0])
            assert not await may_publish(pdp, f"{replies[0]}0")

    async def test_a_replica_hears_only_what_it_may_decide(self, world):
        """The server lets a wildcard pass where a single star was allowed: what is heard by it must still be right."""
        heard: list[str] = []
        only = f"{PEP}\nobject: /x\naction: decide"
        async with world.connect(only) as pdp, world.connect(PEP) as pep:
            await pdp.listen("af.ask.any.default.*.=.x.>", lambda s, *_: heard.append(s))
            assert not await may_subscribe(pdp, "af.ask.any.default.>")
            pep.send("af.ask.any.default.alice.=.x.below.read", b"")
            pep.send(ASK, b"")
            await pep.flush()
            await eventually(lambda: ASK in heard)
        assert heard == [ASK]


class TestLimits:
    async def test_a_key_has_only_so_many_connections(self, world, access):
        credentials = world.credentials(PEP)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(access.control.rules.connections):
                await stack.enter_async_context(world.connect(credentials))
            key = str(credentials.identity.public)
            await eventually(lambda: access.census.count(key) == access.control.rules.connections)
            await refused(world, credentials)
        await eventually(lambda: access.census.count(key) == 0)
        async with world.connect(credentials):
            pass

    async def test_a_connection_has_only_so_many_subscriptions(self, world):
        credentials = world.credentials(PEP)
        async with world.connect(credentials) as bus:
            own = inbox(credentials.identity.public)
            with contextlib.suppress(NotConnected):
                for number in range(world.limits.subscriptions + 5):
                    await bus.listen(f"{own}.{number}", lambda *_: None)
                await bus.flush()
            await eventually(lambda: bus.reconnects or not bus.ready)

    async def test_a_message_has_only_so_many_bytes(self, world):
        async with world.connect(PEP) as bus:
            bus._client._max_payload = 1 << 30  # whoever attacks does not ask the library
            with contextlib.suppress(NotConnected):
                bus.send(ASK, b"x" * (2 << 20))
                await bus.flush()
            await eventually(lambda: bus.reconnects or not bus.ready)

    async def test_a_flood_is_ended_and_stays_out_while_others_are_answered(self, world, access, monkeypatch):
        """Nobody looks at the limit before many were answered amid the flood; then it ends that, and nothing else."""
        answered: list[tuple[Reason, int]] = []
        sent = looks = 0
        put_out = access._put_out

        def look(page: list[Connected]) -> None:
            nonlocal looks
            if len(answered) >= 20:
                looks += 1
                put_out(page)

        monkeypatch.setattr(access, "_put_out", look)
        flooder = world.credentials(PEP)
        key = str(flooder.identity.public)
        over = lambda: access.census.banned(key, access._clock()) or looks > 20  # noqa: E731

        async def pour(flood: Connection) -> None:
            nonlocal sent
            while not over():
                with contextlib.suppress(NotConnected):
                    for _ in range(500):
                        flood.send(ASK, b"junk")
                        sent += 1
                await asyncio.sleep(0.001)

        async with (
            world.connect(PDP) as own,
            Replica(own, Readers(), [Scope.parse("domain:default")]) as replica,
            Enforcer.connect(world.url, credentials=world.credentials(PEP), deadline=30.0) as pep,
            world.connect(flooder) as flood,
        ):
            pouring = asyncio.create_task(pour(flood))
            while not over():
                before = sent
                reason = (await pep.check("ann", "/x", "read")).reason
                answered.append((reason, sent - before))
            await pouring
            assert access.census.banned(key, access._clock())
            await eventually(lambda: not flood.ready)
            assert (await pep.check("ann", "/x", "read")).reason is Reason.POLICY
            assert pep.asker.connection.reconnects == own.reconnects == 0
            assert replica.refused > 0
        assert {reason for reason, _ in answered} == {Reason.POLICY}
        assert sum(junk > 0 for _, junk in answered) >= 20, "there was no flood while questions were answered"
        await refused(world, flooder)


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
            await ask_revocation(boss, Notice.event(Identity.generate(), certificate, 1))
            await ask_revocation(boss, world.revocation(other))
            await eventually(lambda: not neighbour.ready)
            assert (bus.ready, bus.reconnects) == (True, 0)
            async with world.connect(credentials) as bus:
                assert bus.ready


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

    async def test_while_none_is_up_nobody_new_comes_in_and_those_inside_stay(self, tmp_path):
        async with secured(tmp_path) as (world, access), answering(world), world.connect(PEP) as bus:
            await access.__aexit__(None, None, None)
            await refused(world, world.credentials(PEP))
            assert await bus.ask(ASK, b"still", 5.0) == b"still"


@contextlib.asynccontextmanager
async def member(world: Secured):
    keys = ServiceKeys.of(world.service)
    own = Credentials(keys.member, tls=world.tls(keys.member))
    async with Connection(world.url, credentials=own) as bus:
        yield bus


class TestClusters:
    async def test_links_between_servers_are_verified_and_revocation_reaches_all_of_them(self, tmp_path):
        world = Secured(tmp_path)
        keys = ServiceKeys.of(world.service)
        own = Credentials(keys.member, tls=world.tls(keys.member))
        async with cluster(3, jetstream=True, security=world.security, credentials=own) as servers:
            world.url = servers[0].url
            certificate = world.grant(holder := Identity.generate(), PEP)
            credentials = Credentials(holder, encode_chain([certificate]), world.tls(holder))
            async with (
                world.access() as access,
                Connection(servers[1].url, credentials=credentials) as elsewhere,
                Connection(servers[2].url, credentials=world.credentials(PDP)) as pdp,
            ):
                await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: pdp.send(reply, data))
                await pdp.flush()
                await eventually(lambda: access.census.count(str(holder.public)) == 1)
                # What is wanted at one server is known at another a moment later.
                answer = await once_it_works(lambda: elsewhere.ask(ASK, b"across", 5.0), NoResponders)
                assert answer == b"across"
                async with Connection(servers[2].url, credentials=own) as boss:
                    await ask_revocation(boss, world.revocation(certificate))
                await eventually(lambda: not elsewhere.ready)

    async def test_a_server_without_a_certificate_of_the_domain_cannot_join(self, tmp_path):
        (tmp_path / "other").mkdir()
        world, strange = Secured(tmp_path), Secured(tmp_path / "other")
        (port,) = free_ports(1)
        inside = f'cluster {{ name: x, listen: "127.0.0.1:{port}", {world.security.cluster_tls()} }}\n'
        own = replace(
            strange.security, authorities=world.security.authorities
        )  # it believes us; do we believe it?
        routes = f'routes: ["nats://127.0.0.1:{port}"], {own.cluster_tls()}'
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


def log_of(server: NatsServer) -> str:
    return (server._folder / "log").read_text()


class TestStreams:
    """Whoever makes a stream says what the server puts into it, and where it repeats that."""

    async def test_nobody_hears_others_by_a_stream_of_his_own_making(self, tmp_path):
        buckets = [f"KV_{each}" for each in (RELEASES, CONTENT, TYPES, KEYS, ROLES, CONTEXT)]
        async with (
            secured(tmp_path) as (world, access),
            world.connect("network: *\naction: *\nobject: *\naction: *") as thief,
            world.connect(PEP) as other,
        ):
            streams, heard = access.member.jetstream(), list[bytes]()
            for bucket in buckets:  # as if they had never been set up
                await streams.delete_stream(bucket)
            await thief.listen(
                f"{thief.own_place}.>", lambda subject, reply, data, headers: heard.append(data)
            )
            repeat = {"src": "af.ask.>", "dest": f"{thief.own_place}.>"}
            for stream in (AUDIT, AUDIT_HEADS, *buckets):
                wanted = {"name": stream, "subjects": ["af.ask.>"], "republish": repeat}
                thief.send(f"$JS.API.STREAM.CREATE.{stream}", json.dumps(wanted).encode())
                await thief.flush()
                other.send(ASK, b"a question of somebody else's")
                await other.flush()
                with pytest.raises(NotFoundError):
                    await streams.stream_info(stream)
            await thief.flush()
            assert heard == []

    async def test_what_is_kept_is_there_before_anybody_comes(self, world, access):
        async with world.connect("network: *\naction: *") as member:
            assert await ReleaseStore(member).put(b"content")
            await RecordStore(member, TYPES).put("a.b", b"definition")
            assert await StateStore(member, KEYS).write("a", b"keys", 0)
