"""State of key groups that was sealed once is put back, on a secured server: whoever was evicted since stays out."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import time
from functools import partial

import msgspec
import pytest

from authz import Identity
from authz.spki import Notice, encode_chain
from bus.errors import ReplyTimeout
from bus.feeds.revocations import publish_notice
from bus.runtime import end_task
from bus.stores.record_store import RecordStore, writer
from bus.stores.release_store import erase_entry, read_entry
from bus.wire import subjects
from bus.wire.subjects import KEYS, REVOCATIONS, kept, written
from pubsub_core.key_groups.key_group import GroupRecord, MemberRecord, Rules
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.key_groups.member_service import KeyClient
from pubsub_core.key_groups.messages import changes, unpack_told
from pubsub_core.key_groups.oft_member import Member
from pubsub_core.key_groups.rotation_schedule import Tenure
from pubsub_core.key_groups.state_marks import StateMarks
from pubsub_core.keys import KeyRing, OutOfStep, Plan
from tests.pdp.access.attempts import may_publish
from tests.pubsub_core.keys.office import (
    MANAGER,
    NAMES,
    OWNER,
    PLATE,
    RULES,
    certificate,
    chain,
    new_type,
    newest,
    of,
    office,
)
from tests.secured import PEP, secured
from tests.waiting import eventually, once_it_works

INSTALLER = "network: default\naction: connect|install"
QUICK = Rules(period=0.4, lead=0.0)


class Evicted:
    """A broker that is in a group no more, has kept all it knew, and tries to follow whatever is told."""

    def __init__(self, member: Member) -> None:
        self._known = {member.version: [member]}
        self.secrets = {member.secret}
        self._heard = set[bytes]()

    def hear(self, payload: bytes) -> None:
        if payload in self._heard:
            return
        self._heard.add(payload)
        rekey = changes.open(unpack_told(payload).data, {MANAGER.public}).value.rekey
        for member in self._known.get(rekey.version - 1, ()):
            follower = copy.deepcopy(member)
            with contextlib.suppress(OutOfStep):
                follower.apply(rekey)
                self._known.setdefault(rekey.version, []).append(follower)
                self.secrets.add(follower.secret)


class Scene:
    """A type whose keys are managed on a secured server, and what its servers have kept of an older state."""

    def __init__(self, world, access, folder) -> None:
        self.world, self.bus, self.marks = world, access.member, folder / "keys.marks"
        self.keyed = new_type()
        self.group = of(self.keyed, PLATE)
        self.credentials = world.credentials(INSTALLER)
        self.older: dict[str, bytes] = {}

    @contextlib.asynccontextmanager
    async def managing(self, rules: Rules = RULES, marks: bool = False, credentials=None, **changed):
        async with self.world.connect(credentials or self.credentials) as bus:
            known = StateMarks(self.marks, MANAGER) if marks else None
            manager = KeyManager(bus, office(self.keyed.id, rules, **changed), known, pulse=0.05)
            async with manager.serving():
                await bus.flush()
                yield manager

    @contextlib.asynccontextmanager
    async def broker(self):
        identity = Identity.generate()
        async with self.world.connect(self.world.credentials(PEP, identity)) as bus:
            client = KeyClient(bus, identity, KeyRing())
            async with client.running():
                yield client

    async def join(self, client: KeyClient) -> None:
        await client.join(self.keyed, chain(client._identity), [self.group])

    async def evicted(self, stays: KeyClient) -> Evicted:
        """Have a broker join that is then revoked, and keep the state in which it is a member."""
        async with self.broker() as client:
            mine = certificate(client._identity)
            await client.join(self.keyed, encode_chain([mine]), [self.group])
            membership = client._joined[self.keyed.id].groups[self.group]
            gone = Evicted(copy.deepcopy(membership._member))
            await self.bus.listen(
                subjects.key_changes(self.keyed.id), lambda subject, reply, data, headers: gone.hear(data)
            )
            await self.join(stays)
            await self.keep()
            before = newest(stays, self.group)
            await publish_notice(self.bus, Notice.event(OWNER, mine, int(time.time())))
            await eventually(lambda: not client.ring.groups and newest(stays, self.group) > before)
        return gone

    async def keep(self) -> None:
        below = kept(KEYS, "")
        info = await self.bus.jetstream().stream_info(f"KV_{KEYS}", subjects_filter=f"{below}>")
        for subject in info.state.subjects or ():
            entry = await read_entry(self.bus, KEYS, subject.removeprefix(below))
            assert entry is not None
            self.older[entry.key] = entry.data

    async def put_back(self) -> None:
        """As whoever runs the servers can, or has their disks."""
        for key, data in self.older.items():
            await self.bus.jetstream().publish(written(KEYS, key), data)

    async def status(self):
        return await KeyManager(self.bus, office(self.keyed.id, plan=Plan(()))).status()

    async def members(self) -> set[str]:
        groups = (await self.status()).groups
        return {member.key for each in groups for member in each.members if not member.leaving}


def shared(gone: Evicted, client: KeyClient, group: str, after: int) -> bool:
    """Whether somebody who was evicted knows a key that was made since."""
    keys = client.ring.of(group) or ()
    return any(bytes(each._secret) in gone.secrets for each in keys if each.epoch > after)


@pytest.fixture
async def scene(tmp_path):
    async with secured(tmp_path) as (world, access):
        yield Scene(world, access, tmp_path)


async def test_whoever_may_install_elsewhere_puts_no_older_state_of_key_groups_in_place(scene):
    async with scene.broker() as stays, scene.managing():
        gone = await scene.evicted(stays)
    before = await scene.members()
    assert before == {str(stays._identity.public)}
    async with scene.world.connect("network: other\naction: connect|install") as thief:
        for key, data in scene.older.items():
            assert not await may_publish(thief, written(KEYS, key))
            name = key.partition(".")[2]
            await thief.jetstream().publish(written(KEYS, f"{writer(thief)}.{name}"), data)
    assert await scene.members() == before
    async with scene.broker() as later, scene.managing(QUICK):
        await scene.join(later)
        reached = newest(later, scene.group)
        await eventually(lambda: newest(later, scene.group) > reached + 1)
        assert not shared(gone, later, scene.group, 1)


@contextlib.asynccontextmanager
async def writing_on_and_on(scene: Scene, manager: KeyManager):
    """Somebody who may install elsewhere, and writes under the names of the groups all the time."""
    async with scene.world.connect("network: other\naction: connect|install") as thief:
        names = [manager._name(each) for each in ("plan", scene.group)]
        written_at = itertools.count()

        async def write() -> None:
            while True:
                for name in names:
                    await thief.jetstream().publish(written(KEYS, f"{writer(thief)}.{name}"), b"junk")
                    next(written_at)

        writing = [asyncio.create_task(write()) for _ in range(2)]
        try:
            yield
            before = next(written_at)
            await eventually(lambda: next(written_at) > before + 10)  # it goes on
        finally:
            await asyncio.gather(*map(end_task, writing))


async def test_whoever_may_install_elsewhere_stops_no_eviction_by_writing_on_and_on(scene):
    async with scene.broker() as stays, scene.managing() as manager:
        async with writing_on_and_on(scene, manager):
            gone = await scene.evicted(stays)
            assert await scene.members() == {str(stays._identity.public)}
        assert not shared(gone, stays, scene.group, 1)


async def test_replicas_of_several_members_share_one_state_though_others_write_on_and_on(scene):
    other = scene.world.credentials(INSTALLER)
    async with (
        scene.managing(QUICK) as one,
        scene.managing(QUICK, credentials=other),
        writing_on_and_on(scene, one),
        contextlib.AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(scene.broker()) for _ in range(8)]
        # All at once, so that both replicas change the group; a busy machine may not answer in time.
        joining = [once_it_works(partial(scene.join, each), ReplyTimeout) for each in clients]
        await asyncio.gather(*joining)
        everybody = {str(each._identity.public) for each in clients}
        assert await scene.members() == everybody
        reached = max(newest(each, scene.group) for each in clients)
        await eventually(lambda: min(newest(each, scene.group) for each in clients) > reached + 1)
        assert await scene.members() == everybody


async def test_older_key_groups_that_servers_put_back_are_written_over_by_a_manager_that_knows_better(scene):
    async with scene.broker() as stays, scene.broker() as later, scene.managing():
        gone = await scene.evicted(stays)
        await scene.put_back()
        known = {bytes(each._secret) for each in stays.ring.of(scene.group)}
        await scene.join(later)
        assert {bytes(each._secret) for each in later.ring.of(scene.group)} <= known - gone.secrets
        assert await scene.members() == {str(each._identity.public) for each in (stays, later)}


async def test_whoever_was_revoked_is_evicted_from_what_a_replica_stored_that_did_not_know(scene):
    async with scene.broker() as stays, scene.managing() as manager:
        gone = await scene.evicted(stays)
        async with scene.world.connect(INSTALLER) as bus:
            behind = KeyManager(bus, office(scene.keyed.id))
            name = "a broker that was revoked"
            asked = MemberRecord(b"k" * 32, Tenure(0.0, time.time() + 60), 0, time.time(), b"no capability")
            await behind._change(scene.group, lambda group: group.admit(name, asked, time.time()) or True)
            assert name in (await behind._load(scene.group))[1].members
            await eventually(lambda: manager._newest[scene.group].number > behind._newest[scene.group].number)
        assert name not in await scene.members()
        assert not shared(gone, stays, scene.group, 1)


async def test_a_manager_that_was_away_goes_on_from_no_older_key_groups_than_it_had(scene):
    """Those who put them back have lost what was revoked as well."""
    async with scene.broker() as stays:
        async with scene.managing(marks=True):
            gone = await scene.evicted(stays)
        reached = newest(stays, scene.group)
        await scene.put_back()
        for record in await RecordStore(scene.bus, REVOCATIONS).since(0):
            await erase_entry(scene.bus, REVOCATIONS, record.name)
        async with scene.managing(QUICK, marks=True):
            await eventually(lambda: newest(stays, scene.group) > reached + 3)
            assert not shared(gone, stays, scene.group, 1)
            assert await scene.members() == {str(stays._identity.public)}


async def test_an_older_plan_of_key_groups_that_servers_put_back_does_not_count(scene):
    whole = Plan.whole(scene.keyed.id, NAMES)
    async with scene.managing(marks=True):
        await scene.keep()
    async with scene.managing(plan=whole, marks=True) as manager:
        since = manager._office.ways.since
        await scene.put_back()
        await manager.tick()
        assert (manager._office.plan, manager._office.ways.since) == (whole, since)
        assert [each.attributes for each in (await scene.status()).groups] == [tuple(sorted(NAMES.values()))]
    await scene.put_back()
    async with scene.managing(plan=whole, marks=True) as manager:
        assert manager._office.plan == whole
        assert manager._office.ways.since > since


async def test_replicas_of_several_members_share_one_state(scene):
    other = scene.world.credentials(INSTALLER)
    async with scene.broker() as first, scene.broker() as second:
        async with scene.managing():
            await scene.join(first)
        async with scene.managing(credentials=other):
            await scene.join(second)
        async with scene.managing(QUICK), scene.managing(QUICK, credentials=other):
            await eventually(lambda: min(newest(each, scene.group) for each in (first, second)) > 2)
        assert await scene.members() == {str(each._identity.public) for each in (first, second)}


async def test_state_of_a_version_before_is_taken_over(scene):
    async with scene.broker() as stays, scene.managing() as manager:
        await scene.join(stays)
        name = manager._name(scene.group)
        _, record = await manager._load(scene.group)
        plan = (await manager._read("plan")).data
        secrets = manager._secrets
    for key in [each.key for each in await entries(scene)]:
        await erase_entry(scene.bus, KEYS, key)
    group = msgspec.msgpack.encode(msgspec.structs.replace(record, number=0))
    for each, content in ((name, group), (name.replace(scene.group, "plan"), plan)):
        entry = msgspec.msgpack.encode(((), secrets.seal_state(each, content)))
        await scene.bus.jetstream().publish(written(KEYS, each), entry)
    async with scene.managing():
        assert await scene.members() == {str(stays._identity.public)}


async def entries(scene: Scene):
    scene.older.clear()
    await scene.keep()
    return [await read_entry(scene.bus, KEYS, key) for key in scene.older]


def test_a_record_is_older_by_either_number():
    record = GroupRecord("a", number=3)
    assert GroupRecord("a", number=2).older(record)
    assert not record.older(record)
