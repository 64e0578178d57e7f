"""What whoever is let in may say, hear and take of the servers, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from nats.js.errors import APIError, NotFoundError

from authz import Identity, Reason
from bus import Connection, NotConnected
from bus.feeds.revocations import publish_notice
from bus.server.system_account import Connected
from bus.stores.record_store import RecordStore, writer
from bus.stores.release_store import ReleaseStore, read_entry
from bus.stores.state_store import StateStore
from bus.wire.scopes import Scope
from bus.wire.subjects import (
    AUDIT,
    AUDIT_HEADS,
    CONTENT,
    CONTEXT,
    KEYS,
    RELEASES,
    REVOCATIONS,
    ROLES,
    TYPES,
    answers,
    attributes,
    attributes_changed,
    inbox,
    kept,
    place,
    revoke,
    written,
)
from pdp.replica.service import Replica
from pep import UNVERIFIED, Enforcer
from tests.deciders import Readers
from tests.pdp.access.attempts import ASK, answering, may_publish, may_subscribe, refused
from tests.secured import PDP, PEP, secured
from tests.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHOP = "network: shop\naction: connect"


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
            "_R_.>",
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
            "_INBOX.x.y.z",
            "_R_.kv.authfabric-releases.default",
        ],
    )
    async def test_who_asks_may_not_speak_elsewhere(self, world, subject):
        async with world.connect(PEP) as pep:
            assert not await may_publish(pep, subject)

    async def test_nobody_may_write_into_anothers_inbox(self, world):
        """Servers answer there. Those who decide answer elsewhere, and cannot guess where others are answered."""
        victim, attacker = world.credentials(PEP), world.connect(PDP)
        private, answered = inbox(victim.identity.public), answers(place(victim.identity.public))
        async with world.connect(victim) as asker, attacker:
            assert not await may_publish(attacker, f"{private}.1.1")
            for mine in (private, answered):
                assert not await may_subscribe(attacker, f"{mine}.>")
            told = {asker.expect(lambda *_: None) for _ in range(64)}
            words = {reply.removeprefix(f"{answered}.").partition(".")[2] for reply in told}
            assert (len(words), {len(word) for word in words}) == (64, {16})

    async def test_a_replica_answers_questions_and_speaks_nowhere_else_by_asking_itself(self, world):
        """Whoever asks names the subject to be answered on: may the one who is asked then publish there?"""
        victim = world.credentials(PEP)
        elsewhere = [
            "$JS.API.STREAM.CREATE.mine",
            "$JS.API.STREAM.DELETE.KV_authfabric-revocations",
            "af.released.default",
            revoke(place(victim.identity.public)),
            written(RELEASES, "default"),
            f"{inbox(victim.identity.public)}.1.1",
        ]
        async with answering(world) as pdp, world.connect(PEP) as pep:
            assert await pep.ask(ASK, b"hello", 5.0) == b"hello"
            heard: list[str] = []
            await pdp.listen("af.ask.all.default.>", lambda s, reply, data, h: heard.append(reply))
            for reply in elsewhere:
                pdp.send(ASK.replace("any", "all"), b"", reply)
            await pdp.flush()
            await eventually(lambda: len(heard) >= len(elsewhere) - 1)
            assert written(RELEASES, "default") not in heard  # such a question is not even passed on
            assert not [each for each in elsewhere if await may_publish(pdp, each)]

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
        put_out_keys: set[str] = set()
        sent = looks = 0
        put_out, ban = access._put_out, access.census.ban

        def note(banned: str, now: float) -> None:
            put_out_keys.add(banned)
            ban(banned, now)

        def look(page: list[Connected]) -> None:
            nonlocal looks
            if len(answered) >= 20:
                looks += 1
                put_out(page)

        monkeypatch.setattr(access, "_put_out", look)
        monkeypatch.setattr(access.census, "ban", note)
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
            Enforcer.connect(
                world.url, credentials=world.credentials(PEP), deadline=30.0, trust=UNVERIFIED
            ) as pep,
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
            assert replica.refused > 0
        assert put_out_keys == {key}
        assert {reason for reason, _ in answered} == {Reason.POLICY}
        assert sum(junk > 0 for _, junk in answered) >= 20, "there was no flood while questions were answered"
        await refused(world, flooder)


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

    @pytest.mark.parametrize("right", [f"{SHOP}|provide", f"{SHOP}\nobject: *\naction: decide"])
    async def test_who_provides_or_decides_in_one_domain_reaches_nothing_of_anothers_roles_and_attributes(
        self, world, right
    ):
        async with world.connect(right) as shop:
            for heard in (
                attributes("bank", "hr"),
                attributes_changed("bank", "hr"),
                f"af.recorded.{ROLES}.bank.x",
            ):
                assert not await may_subscribe(shop, heard)
            changed, record = attributes_changed("bank", "hr"), written(ROLES, "bank.session")
            for said in (attributes("bank", "hr"), changed, record, f"$JS.API.STREAM.PURGE.KV_{ROLES}"):
                assert not await may_publish(shop, said)

    @pytest.mark.parametrize(
        ("right", "bucket", "own", "others"),
        [("provide", ROLES, "shop.x", "bank.session"), ("install", RELEASES, "shop", "bank")],
    )
    async def test_who_writes_its_own_entries_purges_nobody_elses_by_a_header(
        self, world, access, right, bucket, own, others
    ):
        theirs = await access.member.jetstream().publish(written(bucket, others), b"theirs")
        async with world.connect(f"network: shop\naction: connect|{right}") as shop:
            purge = shop.jetstream().publish(written(bucket, own), b"mine", headers={"Nats-Rollup": "all"})
            with pytest.raises(APIError, match="rollup"):
                await purge
        found = await read_entry(access.member, bucket, others)
        assert found is not None
        assert (found.revision, found.data) == (theirs.seq, b"theirs")

    async def test_who_releases_in_one_domain_takes_out_no_policies_of_another(self, world, access):
        store = ReleaseStore(access.member)
        (name,) = await store.put("bank", b"policies of the bank")
        async with world.connect("network: shop\naction: connect|install") as shop:
            for key in (f"blob.bank.{name}", f"blob.{name}"):
                assert not await may_publish(shop, written(CONTENT, key))
            assert await ReleaseStore(shop).put("shop", b"policies of the shop")
        assert await store.get("bank", [name]) == b"policies of the bank"

    async def test_nobody_writes_to_a_store_by_naming_it_as_the_place_for_answers(self, tmp_path):
        """Servers answer wherever they are told. A member has them overwrite a revocation: is it still there?"""
        async with secured(tmp_path) as (world, access), world.connect(PEP) as thief:
            certificate = world.grant(Identity.generate(), PEP)
            await publish_notice(access.member, world.revocation(certificate))
            (record,) = await RecordStore(access.member, REVOCATIONS).since(0)
            answered = list[str]()
            for subject in (kept(REVOCATIONS, record.name), written(REVOCATIONS, record.name)):
                await access.member.listen(subject, lambda subject, *_: answered.append(subject))
            await access.member.flush()
            for place_ in (written(REVOCATIONS, record.name), kept(REVOCATIONS, record.name)):
                for asked in ("$JS.API.INFO", "$SYS.REQ.USER.INFO", f"$JS.API.STREAM.INFO.KV_{REVOCATIONS}"):
                    thief.send(asked, b"", place_)
            await thief.flush()
            await eventually(lambda: len(answered) >= 3)
            assert answered == 3 * [kept(REVOCATIONS, record.name)]  # where nothing is written
            await access.member.flush()
            assert await RecordStore(access.member, REVOCATIONS).since(0) == [record]

    async def test_what_is_kept_is_there_before_anybody_comes(self, world, access):
        async with world.connect("network: *\naction: *") as member:
            assert await ReleaseStore(member).put("default", b"content")
            await RecordStore(member, TYPES).put(f"{writer(member)}.b", b"definition")
            assert await StateStore(member, KEYS).write("a", b"keys", 0)
