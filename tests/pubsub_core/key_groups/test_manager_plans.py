"""Managers of keys give out those of their own types, by the newest plan, to many at once."""

import asyncio
import contextlib
import time

import msgspec
import pytest

from authz import Identity
from authz.spki import Notice, encode_chain
from bus import Connection
from pubsub_core.key_groups.key_group import Rules
from pubsub_core.key_groups.manager_service import KeyManager
from pubsub_core.key_groups.messages import MAX_AGE, introductions
from pubsub_core.key_groups.plan_history import GRACE
from pubsub_core.keys.errors import AdmissionRefused, ManagerUntrusted, PlanReplaced
from pubsub_core.keys.plan import Plan
from tests.pubsub_core.key_groups.test_manager_service import secrets
from tests.pubsub_core.keys.office import (
    MANAGER,
    NAMES,
    OWNER,
    PLAN,
    PLATE,
    broker,
    certificate,
    chain,
    managing,
    new_type,
    newest,
    of,
    office,
)
from tests.waiting import eventually


async def test_types_with_the_same_attributes_have_keys_of_their_own(jetstream_server):
    parent, child, url, me = new_type(), new_type(), jetstream_server.url, Identity.generate()
    async with managing(url, parent.id), managing(url, child.id), broker(url, me) as client:
        for keyed in (parent, child):
            await client.join(keyed, chain(me), [of(keyed, PLATE)])
        assert secrets(client, of(parent, PLATE)) != secrets(client, of(child, PLATE))


async def test_a_manager_of_one_type_gives_out_no_keys_of_another(jetstream_server):
    keyed, other, url, me = new_type(), new_type(), jetstream_server.url, Identity.generate()
    async with managing(url, keyed.id) as manager, broker(url, me) as client:
        group = msgspec.to_builtins(PLAN.of(keyed.id).groups[0])
        introduction = manager._office.introduce(b"x" * 32, time.time())
        content = msgspec.msgpack.decode(msgspec.msgpack.decode(introduction)[0])
        for groups in (PLAN.of(other.id).groups, PLAN.groups, [group, group], [["no id", ["nor here"]]]):
            content[2][0] = groups
            signed = introductions.sign(content, MANAGER)
            with pytest.raises(ManagerUntrusted):
                client._trust(keyed, signed)


async def test_a_broker_that_is_refused_does_not_go_on_to_ask_with_each_change(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    async with (
        managing(url, keyed.id, Rules(period=0.2, lead=0.0)) as manager,
        broker(url) as stays,
        broker(url, me) as client,
    ):
        await stays.join(keyed, chain(stays._identity), [of(keyed, PLATE)])
        mine = certificate(me)
        manager.accept(Notice.event(OWNER, mine, int(time.time())))
        with pytest.raises(AdmissionRefused):
            await client.join(keyed, encode_chain([mine]), [of(keyed, PLATE)])
        before = newest(stays, of(keyed, PLATE))
        await eventually(lambda: newest(stays, of(keyed, PLATE)) > before + 2)
        assert manager.refused == 1
        assert client.plan(keyed.id) == PLAN.of(keyed.id)


async def test_two_replicas_admit_many_at_once_and_all_have_the_same_keys(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    rules, groups = Rules(period=0.5, lead=0.0), PLAN.of(keyed.id).by_id
    async with (
        managing(url, keyed.id, rules),
        managing(url, keyed.id, rules),
        contextlib.AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(broker(url)) for _ in range(8)]
        await asyncio.gather(*(client.join(keyed, chain(client._identity)) for client in clients))
        first = {group: newest(clients[0], group) for group in groups}
        await eventually(lambda: all(newest(clients[0], group) > first[group] + 1 for group in groups))
        for group in groups:
            epoch = newest(clients[0], group)
            await eventually(lambda at=(group, epoch): all(client.ring.at(*at) for client in clients))
            assert len({bytes(client.ring.at(group, epoch)._secret) for client in clients}) == 1


async def test_replicas_go_by_the_plan_of_the_one_that_started_last(jetstream_server):
    keyed, url, me = new_type(), jetstream_server.url, Identity.generate()
    whole = Plan.whole(keyed.id, NAMES)
    async with managing(url, keyed.id) as first, broker(url, me) as client:
        async with managing(url, keyed.id, plan=whole):
            await eventually(lambda: first._office.plan == whole)
        assert await client.join(keyed, chain(me)) == whole


async def test_options_that_others_have_replaced_are_refused_unless_that_is_meant(jetstream_server):
    keyed, url = new_type(), jetstream_server.url
    whole = Plan.whole(keyed.id, NAMES)
    for plan in (PLAN, whole, whole):
        async with managing(url, keyed.id, plan=plan):
            pass
    with pytest.raises(PlanReplaced, match="--back"):
        async with managing(url, keyed.id):
            pass
    async with Connection(url) as bus:
        assert len((await KeyManager(bus, office(keyed.id)).status()).groups) == 1
        async with KeyManager(bus, office(keyed.id), back=True).serving():
            assert len((await KeyManager(bus, office(keyed.id)).status()).groups) == 3
        async with managing(url, keyed.id):
            pass
    with pytest.raises(PlanReplaced):
        async with managing(url, keyed.id, plan=whole):
            pass


async def test_an_introduction_that_is_repeated_does_not_bring_an_old_plan_back(jetstream_server):
    """By the old one, what is sealed now may have been in clear."""
    keyed, url = new_type(), jetstream_server.url
    whole = Plan.whole(keyed.id, NAMES)
    async with broker(url) as client, broker(url) as later:
        async with managing(url, keyed.id) as manager:
            old = manager._office.introduce(b"x" * 32, time.time())
            client._trust(keyed, old)
        async with managing(url, keyed.id, plan=whole):
            assert await client.find_plan(keyed) == whole
        with pytest.raises(ManagerUntrusted, match="replaced"):
            client._trust(keyed, old)
        later._clock = lambda: time.time() + MAX_AGE + 1
        with pytest.raises(ManagerUntrusted, match="not of now"):
            later._trust(keyed, old)


async def test_whoever_is_evicted_while_the_plan_changes_has_nothing_of_the_old_keys(jetstream_server):
    keyed, url, evicted = new_type(), jetstream_server.url, Identity.generate()
    whole, old = Plan.whole(keyed.id, NAMES), of(keyed, PLATE)
    async with broker(url) as moved, broker(url) as slow, broker(url, evicted) as gone:
        async with managing(url, keyed.id):
            for client in (moved, slow):
                await client.join(keyed, chain(client._identity))
            await gone.join(keyed, encode_chain([mine := certificate(evicted)]))
            had = newest(moved, old)
        async with managing(url, keyed.id, plan=whole) as manager, broker(url) as late:
            assert await moved.join(keyed, chain(moved._identity)) == whole
            doubts: list[str] = []
            late.on_doubt.append(doubts.append)
            await late.join(keyed, chain(late._identity))
            manager.accept(Notice.event(OWNER, mine, int(time.time())))
            await eventually(lambda: all(newest(each, old) > had for each in (moved, slow)))
            assert secrets(moved, old) == secrets(slow, old)
            for client in (moved, slow):
                assert client.ring.has_left(str(evicted.public), [(old, had)])
            assert newest(gone, old) == had or not gone.ring.holds(old)
            assert moved.ring.of(old).opening(newest(moved, old), time.time() + 2 * GRACE, 0.0) is None
            await eventually(lambda: newest(late, whole.groups[0].id) == newest(moved, whole.groups[0].id))
            assert not doubts
