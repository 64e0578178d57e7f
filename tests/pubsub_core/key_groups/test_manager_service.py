"""Brokers get the keys that their capabilities are for, over a real server, whatever is lost and whoever is killed."""

import asyncio
import contextlib
import signal
import sys
import time

import pytest

from authz import Identity
from authz.predicate import Equal, Path
from authz.spki import Notice, encode_chain
from bus import Connection
from bus.errors import NoResponders, ReplyTimeout
from bus.feeds.revocations import publish_notice
from bus.nats.faults import FaultyConnection
from bus.stores.release_store import read_entry
from bus.wire.subjects import KEYS
from pubsub_core.key_groups.appointment_store import Managers
from pubsub_core.key_groups.key_group import Rules
from pubsub_core.key_groups.keyed_type import KeyedType
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.key_groups.member_service import KeyClient
from pubsub_core.key_groups.messages import Appointment, appointments
from pubsub_core.key_groups.plan_history import GRACE
from pubsub_core.keys.errors import AdmissionRefused, ManagersUnknown, ManagerUntrusted
from pubsub_core.keys.plan import Plan
from tests.pubsub_core.keys.office import (
    LOCATION,
    MANAGER,
    NAMES,
    OWNER,
    PLAN,
    PLATE,
    RULES,
    TIME,
    TYPE,
    broker,
    certificate,
    chain,
    managing,
    new_type,
    newest,
    of,
    office,
)
from tests.waiting import PATIENCE, eventually


def secrets(client: KeyClient, group: str) -> dict[int, bytes]:
    return {key.epoch: bytes(key._secret) for key in client.ring.of(group) or ()}


async def test_a_broker_gets_the_keys_of_exactly_the_attributes_its_capability_is_for(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    met, billing = Identity.generate(), Identity.generate()
    async with managing(url, keyed.id), broker(url, met) as all_, broker(url, billing) as some:
        assert await all_.join(keyed, chain(met)) == PLAN.of(keyed.id)
        await some.join(keyed, chain(billing, ["numberplate", "sighted"]))
        assert all_.ring.groups == {of(keyed, each) for each in NAMES}
        assert some.ring.groups == {of(keyed, PLATE), of(keyed, TIME)}
        assert secrets(all_, of(keyed, PLATE)) == secrets(some, of(keyed, PLATE)) != {}
        with pytest.raises(AdmissionRefused):
            await some.join(keyed, chain(billing, ["numberplate", "sighted"]), [of(keyed, LOCATION)])


@pytest.mark.parametrize("conditions", [{"where": [Equal(Path("event", ("numberplate",)), "AE05 XYZ")]}])
async def test_a_capability_for_some_values_only_gives_no_key(jetstream_server, conditions):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    async with managing(url, keyed.id), broker(url, me) as client:
        with pytest.raises(AdmissionRefused, match="without conditions"):
            await client.join(keyed, chain(me, **conditions), [of(keyed, PLATE)])


async def test_someone_elses_capability_gives_no_key(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    async with managing(url, keyed.id) as manager, broker(url, Identity.generate()) as thief:
        with pytest.raises(AdmissionRefused):
            await thief.join(keyed, chain(Identity.generate()))
        assert manager.refused == 1
        assert not thief.ring.groups


async def test_a_manager_that_the_owner_did_not_appoint_is_not_asked(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    of_another = KeyedType(keyed.id, TYPE, Identity.generate().public, NAMES)
    async with managing(url, keyed.id), broker(url, me) as client:
        with pytest.raises(ManagerUntrusted):
            await client.join(of_another, chain(me))
    async with managing(url, keyed.id) as manager:
        for bad in (
            b"",
            appointments.sign(Appointment(keyed.id, str(OWNER.public), time.time() + 60), OWNER),
            appointments.sign(Appointment("b" * 32, str(MANAGER.public), time.time() + 60), OWNER),
            appointments.sign(Appointment(keyed.id, str(MANAGER.public), time.time() - 1), OWNER),
            appointments.sign(Appointment(keyed.id, str(MANAGER.public), time.time() + 60), MANAGER),
        ):
            manager._office._appointment = bad
            introduction = manager._office.introduce(b"x" * 32, time.time())
            with pytest.raises(ManagerUntrusted):
                client._trust(keyed, introduction)


async def test_changes_reach_everyone_and_all_come_to_the_same_keys(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(managing(url, keyed.id, Rules(period=0.5, lead=0.0)))
        clients = []
        for _ in range(4):
            me = Identity.generate()
            clients.append(await stack.enter_async_context(broker(url, me)))
            await clients[-1].join(keyed, chain(me), [of(keyed, PLATE)])
        await eventually(lambda: all(newest(each, of(keyed, PLATE)) >= 4 for each in clients))
        common = set.intersection(*(set(secrets(each, of(keyed, PLATE)).items()) for each in clients))
        assert len(common) >= 2


async def test_a_revoked_broker_gets_no_further_key_and_destroys_what_it_has(jetstream_server):
    keyed, url, me, other = new_type(), jetstream_server.url, Identity.generate(), Identity.generate()
    async with managing(url, keyed.id), broker(url, me) as client, broker(url, other) as stays:
        await stays.join(keyed, chain(other), [of(keyed, PLATE)])
        mine = certificate(me)
        await client.join(keyed, encode_chain([mine]), [of(keyed, PLATE)])
        before = newest(stays, of(keyed, PLATE))
        await publish_notice(client._bus, Notice.event(OWNER, mine, int(time.time())))
        await eventually(lambda: newest(stays, of(keyed, PLATE)) > before)
        assert stays.ring.has_left(str(me.public), [(of(keyed, PLATE), before)])
        await eventually(lambda: not client.ring.groups)
        with pytest.raises(AdmissionRefused):
            await client.join(keyed, encode_chain([mine]), [of(keyed, PLATE)])


async def test_nobody_is_admitted_before_it_is_known_what_was_revoked(
    jetstream_server, slow_revocations, monkeypatch, caplog
):
    monkeypatch.setattr("pubsub_core.key_groups.manager_service.PATIENCE", 0.05)
    keyed, url, evicted, honest = new_type(), jetstream_server.url, Identity.generate(), Identity.generate()
    revoked = certificate(evicted)
    slow_revocations.clear()
    async with Connection(url) as bus, broker(url, evicted) as thief, broker(url, honest) as client:
        await publish_notice(client._bus, Notice.event(OWNER, revoked, int(time.time())))
        manager = KeyManager(bus, office(keyed.id), pulse=0.05)
        async with contextlib.AsyncExitStack() as stack:
            starting = asyncio.ensure_future(stack.enter_async_context(manager.serving()))
            await eventually(lambda: caplog.text.count("what was revoked is not known yet") > 1)
            with pytest.raises(NoResponders):
                await thief.join(keyed, encode_chain([revoked]))
            slow_revocations.set()
            await starting
            await bus.flush()
            await client.join(keyed, chain(honest))
            with pytest.raises(AdmissionRefused, match="revoked"):
                await thief.join(keyed, encode_chain([revoked]))
            slow_revocations.clear()
            manager._feed._look_again()  # as after a lost connection
            thief._seconds = 0.2
            with pytest.raises(ReplyTimeout):
                await thief.join(keyed, encode_chain([revoked]))
            thief._seconds = PATIENCE
            slow_revocations.set()
            await manager._feed.read.wait()
            with pytest.raises(AdmissionRefused, match="revoked"):
                await thief.join(keyed, encode_chain([revoked]))


async def test_lost_changes_are_noticed_and_made_good(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    lose = False
    async with (
        managing(url, keyed.id, Rules(period=0.3, lead=0.0)),
        broker(url, me, FaultyConnection, seconds=1.0, loses=lambda _: lose) as client,
    ):
        await client.join(keyed, chain(me), [of(keyed, PLATE)])
        await eventually(lambda: newest(client, of(keyed, PLATE)) >= 2)
        lose = True
        await eventually(lambda: client._bus.lost > 12)
        reached, lose = newest(client, of(keyed, PLATE)), False
        await eventually(lambda: newest(client, of(keyed, PLATE)) > reached + 1)
        assert client.repaired


async def test_replicas_share_one_state_and_one_of_them_is_enough(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    first, second = Identity.generate(), Identity.generate()
    async with broker(url, first) as one, broker(url, second) as other:
        async with managing(url, keyed.id):
            async with managing(url, keyed.id):
                await one.join(keyed, chain(first), [of(keyed, PLATE)])
            await other.join(keyed, chain(second), [of(keyed, PLATE)])
            assert secrets(one, of(keyed, PLATE)) == secrets(other, of(keyed, PLATE))
        async with managing(url, keyed.id, Rules(period=0.2, lead=0.0)):
            await eventually(
                lambda: newest(one, of(keyed, PLATE)) >= 2 and newest(other, of(keyed, PLATE)) >= 2
            )
            both = set(secrets(one, of(keyed, PLATE)).items()) & set(secrets(other, of(keyed, PLATE)).items())
            assert len(both) >= 2


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_manager_killed_in_the_middle_of_a_change_leaves_nobody_behind(jetstream_server, moment):
    keyed, url = new_type(), jetstream_server.url
    first, second = Identity.generate(), Identity.generate()
    doomed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.pubsub_core.keys.office", url, keyed.id, moment, "0.5"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert await doomed.stdout.readline() == b"ready\n"
    async with broker(url, first) as one, broker(url, second) as other:
        await one.join(keyed, chain(first), [of(keyed, PLATE)])
        await other.join(keyed, chain(second), [of(keyed, PLATE)])
        doomed.stdin.write(b"\n")
        assert await doomed.wait() == -signal.SIGKILL
        await eventually(lambda: newest(one, of(keyed, PLATE)) == newest(other, of(keyed, PLATE)))
        after = newest(one, of(keyed, PLATE)) + 1
        async with managing(url, keyed.id, Rules(period=0.5, lead=0.0)):
            await eventually(lambda: all(newest(each, of(keyed, PLATE)) >= after for each in (one, other)))
            assert secrets(one, of(keyed, PLATE))[after] == secrets(other, of(keyed, PLATE))[after]


async def test_a_broker_that_restarts_joins_again_without_a_new_key(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    async with managing(url, keyed.id):
        async with broker(url, me) as client:
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
            before = secrets(client, of(keyed, PLATE))
        async with broker(url, me) as client:
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
            assert secrets(client, of(keyed, PLATE)) == before


async def test_a_manager_whose_connection_was_built_anew_admits_brokers(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    async with managing(url, keyed.id) as manager, broker(url) as first, broker(url) as second:
        await first.join(keyed, chain(first._identity))
        await manager._bus.renew()
        await second.join(keyed, chain(second._identity))
        assert second.ring.groups == {of(keyed, each) for each in NAMES}


async def test_a_broker_goes_along_with_another_plan(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    whole = Plan.whole(keyed.id, NAMES)
    async with broker(url, me) as client:
        async with managing(url, keyed.id):
            await client.join(keyed, chain(me))
        async with managing(url, keyed.id, plan=whole):
            assert await client.join(keyed, chain(me)) == whole
            assert client.ring.groups == {
                *whole.by_id,
                *PLAN.of(keyed.id).by_id,
            }  # others go by both for a while
            client.ring.expire(time.time() + GRACE + RULES.delay, RULES.delay)
        assert client.ring.groups == set(whole.by_id)


async def test_the_manager_that_was_appointed_last_counts(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    async with broker(url, me) as client:
        async with managing(url, keyed.id, since=1.0):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
        before = secrets(client, of(keyed, PLATE))
        async with managing(url, keyed.id, manager=Identity.generate(), since=2.0):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
        after = secrets(client, of(keyed, PLATE))
        assert after
        assert not set(before.values()) & set(after.values())
        async with managing(url, keyed.id, since=1.0):
            with pytest.raises(ManagerUntrusted, match="another was appointed since"):
                await client.join(keyed, chain(me), [of(keyed, PLATE)])
        assert secrets(client, of(keyed, PLATE)) == after


async def test_a_manager_that_was_dismissed_does_not_come_back_when_a_broker_restarts(
    jetstream_server, tmp_path
):
    keyed, url, me, file = new_type(), jetstream_server.url, Identity.generate(), tmp_path / "b.managers"
    successor = Identity.generate()
    async with broker(url, me, managers=file) as client:
        async with managing(url, keyed.id, since=1.0):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
        async with managing(url, keyed.id, manager=successor, since=2.0):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
    async with broker(url, me, managers=file) as client:
        async with managing(url, keyed.id, since=1.0):
            with pytest.raises(ManagerUntrusted, match="another was appointed since"):
                await client.join(keyed, chain(me), [of(keyed, PLATE)])
            assert not client.ring.groups
        async with managing(url, keyed.id, manager=successor, since=2.0):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
    assert b"uk.gov" not in file.read_bytes()


async def test_a_manager_whose_appointment_was_dated_ahead_can_be_dismissed(jetstream_server):
    """Dated by an owner's clock that was ahead, it would be the last one until then, and brokers write that down."""
    keyed, url, me, successor = new_type(), jetstream_server.url, Identity.generate(), Identity.generate()
    async with broker(url, me) as client:
        async with managing(url, keyed.id, since=time.time() + 86_400):
            with pytest.raises(ManagerUntrusted, match="ahead of now"):
                await client.join(keyed, chain(me), [of(keyed, PLATE)])
        async with managing(url, keyed.id, manager=successor, since=time.time()):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])


async def test_a_broker_that_cannot_tell_who_was_dismissed_believes_no_manager(jetstream_server, tmp_path):
    keyed, url, me, file = new_type(), jetstream_server.url, Identity.generate(), tmp_path / "b.managers"
    async with managing(url, keyed.id, since=1.0):
        async with broker(url, me, managers=file) as client:
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
        for spoilt in (b"junk", file.read_bytes()[:-1]):
            file.write_bytes(spoilt)
            with pytest.raises(ManagersUnknown, match=r"b\.managers` cannot be read"):
                Managers(file, me)
        file.unlink()
        file.mkdir()
        with pytest.raises(ManagersUnknown):
            Managers(file, me)
        async with broker(url, me, managers=tmp_path / "later" / "b.managers") as client:
            (tmp_path / "later").touch()  # where a folder would have to be
            with pytest.raises(ManagersUnknown, match="cannot be written"):
                await client.join(keyed, chain(me), [of(keyed, PLATE)])
            assert not client.ring.groups


async def test_leaving_destroys_the_keys_here_and_gives_no_more(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    async with managing(url, keyed.id) as manager, broker(url, me) as client:
        await client.join(keyed, chain(me), [of(keyed, PLATE)])
        await client.leave(keyed.id)
        assert not client.ring.groups
        (member,) = (await manager.status()).groups[1].members
        assert member.leaving


async def test_nothing_that_is_stored_or_sent_tells_names_or_keys(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    seen = []
    async with Connection(url) as eavesdropper, managing(url, keyed.id), broker(url, me) as client:
        await eavesdropper.listen(
            ">", lambda subject, reply, payload, _: seen.append(subject.encode() + payload)
        )
        await eavesdropper.flush()
        await client.join(keyed, chain(me))
        await eavesdropper.flush()
        stored = await entries(eavesdropper, keyed.id)
        assert len(stored) == len(NAMES) + 1
        everything = b"".join(seen) + b"".join(key.encode() + value for key, value in stored.items())
        for name in (*NAMES.values(), TYPE, "Sighting"):
            assert name.encode() not in everything
        for group in PLAN.of(keyed.id).by_id:
            for secret in secrets(client, group).values():
                assert secret not in everything
        assert len(seen) > 3


async def entries(connection: Connection, prefix: str) -> dict[str, bytes]:
    """What the managers' bucket holds below a key; asked for by name, since a watcher may end before its first."""
    bucket = f"$KV.{KEYS}."
    info = await connection.jetstream().stream_info(f"KV_{KEYS}", subjects_filter=f"{bucket}*.{prefix}.>")
    keys = [subject.removeprefix(bucket) for subject in info.state.subjects or ()]
    found = [await read_entry(connection, KEYS, key) for key in keys]
    return {each.key: each.data for each in found if each is not None}


async def test_the_status_shows_groups_members_and_epochs(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    async with managing(url, keyed.id, Rules(period=100.0)) as manager, broker(url, me) as client:
        await client.join(keyed, chain(me, lasts=50), [of(keyed, PLATE)])
        status = await manager.status()
        group = next(each for each in status.groups if each.id == of(keyed, PLATE))
        assert (group.attributes, group.epoch, len(group.members)) == (("numberplate",), 1, 1)
        assert group.members[0].key == str(me.public)
        assert group.next_refresh == group.members[0].until
        async with Connection(url) as bus:  # as `keys status` asks, which knows neither plan nor rules
            elsewhere = KeyManager(bus, office(keyed.id, plan=Plan(())))
            assert await elsewhere.status() == status
