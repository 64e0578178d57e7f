"""Clients use a broker only for types that somebody whom they trust vouches for it with."""

from __future__ import annotations

import asyncio
from time import time
from uuid import uuid4

import pytest

from authz import Identity
from bus.subjects import link_all
from pep.trust_store import UNVERIFIED
from pubsub_core.errors import BrokerUntrusted, SessionLost
from pubsub_core.event_type import EventType
from pubsub_core.trust import ALL, vouch
from pubsub_core.type_signature import SignedType
from tests.pubsub_core.town import NEWS, cut, take
from tests.waiting import PATIENCE, eventually


async def owned_by(place, owner: Identity) -> EventType:
    kind = EventType.new(f"{place.domain}.Owned", owner.public, NEWS, uuid4)
    await place.types.publish(SignedType.sign(kind, owner))
    return kind


async def test_a_broker_that_nobody_vouches_for_is_neither_told_anything_nor_believed(place):
    """It has the genuine one's name and answers in its place."""
    kind = await place.define("News", *NEWS)
    false = await place.broker("north", vouches=())
    client = await place.client("ann", "north")
    for use in (client.publisher, client.subscriber, client.replay, client.restrictions):
        with pytest.raises(BrokerUntrusted, match="does not vouch for it, and the type's owner"):
            await use(kind.name)
    assert false.broker.counts.published == 0
    assert client.inbox.subscribers == {}
    unwary = await place.client("bob", "north", trust=UNVERIFIED)
    await (await unwary.publisher(kind.name)).publish(score=1)
    await eventually(lambda: false.broker.counts.published)


async def test_the_owner_of_a_type_vouches_for_it_alone_where_the_client_trusts_the_owner(place):
    owner, north = Identity.generate(), Identity.generate()
    kind, other = await owned_by(place, owner), await place.define("News", *NEWS)
    word = vouch(north.public, [ALL], time() + 500, owner)
    await place.broker("north", identity=north, vouches=(word,))
    client = await place.client("ann", "north", trust=[owner.public])
    subscriber = await client.subscriber(kind.name)
    await (await client.publisher(kind.name)).publish(score=1)
    assert await take(subscriber, 1) == [{"score": 1}]
    with pytest.raises(BrokerUntrusted):
        await client.subscriber(other.name)
    with pytest.raises(BrokerUntrusted, match="is not among those given as `trust`"):
        await (await place.client("bob", "north")).subscriber(kind.name)


async def test_what_a_client_publishes_does_not_go_to_a_false_broker_that_takes_the_place_of_its_own(place):
    kind = await place.define("News", *NEWS)
    async with place.running("north"):
        client = await place.client("ann", "north")
        publisher, subscriber = await client.publisher(kind.name), await client.subscriber(kind.name)
        await publisher.publish(score=1)
        assert await take(subscriber, 1) == [{"score": 1}]
    false = await place.broker("north", vouches=())
    cut(client)
    with pytest.raises(SessionLost, match="is not trusted with"):
        await asyncio.wait_for(anext(subscriber), PATIENCE)
    with pytest.raises(SessionLost, match="is not trusted with"):
        await publisher.publish(score=2)
    assert false.broker.counts.published == 0


async def test_a_broker_that_was_restarted_with_another_key_goes_on_if_that_is_vouched_for(
    place, monkeypatch
):
    monkeypatch.setattr("pubsub_core.client.KEEPALIVE_SECONDS", 0.05)
    kind = await place.define("News", *NEWS)
    async with place.running("north"):
        client = await place.client("ann", "north")
        publisher, subscriber = await client.publisher(kind.name), await client.subscriber(kind.name)
        await publisher.publish(score=1)
        assert await take(subscriber, 1) == [{"score": 1}]
    await place.broker("north")
    await eventually(lambda: client.sessions_begun == 2)
    await publisher.publish(score=2)
    assert await take(subscriber, 1) == [{"score": 2}]


async def test_a_broker_cut_off_from_an_owner_delivers_nothing_of_it_after_a_restart_either(place, tmp_path):
    kind, file = await place.define("News", *NEWS), tmp_path / "north.known"
    async with place.running("north", known=file, owner_keys=(place.key,)):
        await eventually((tmp_path / "north.owners").exists)
    north = await place.broker("north", known=file)
    await eventually(lambda: kind.id in north.broker.silent)
    client = await place.client("ann", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    await publisher.publish(score=1)
    await eventually(lambda: north.broker.counts.withheld)
    south = await place.broker("south", owner_keys=(place.key,))
    await eventually(lambda: not north.broker.silent)
    await publisher.publish(score=2)
    assert await take(subscriber, 1) == [{"score": 2}]
    assert south.broker.silent == set()


async def test_a_vouch_that_runs_out_ends_the_session_unless_there_is_another(place, monkeypatch):
    monkeypatch.setattr("pubsub_core.client.KEEPALIVE_SECONDS", 0.05)
    kind, north = await place.define("News", *NEWS), Identity.generate()
    word = vouch(north.public, [ALL], time() + 2, place.key, time())
    service = await place.broker("north", identity=north, vouches=(word,))
    client = await place.client("ann", "north")
    subscriber = await client.subscriber(kind.name)
    ends = time() + 3.5
    longer = vouch(north.public, [ALL], ends, place.key, time())
    place.bus.send(link_all(place.domain, "vouch"), longer)
    await eventually(lambda: longer in service.web.words)
    await eventually(lambda: word not in service.web.words)
    with pytest.raises(SessionLost, match="is not trusted with"):
        await asyncio.wait_for(anext(subscriber), PATIENCE)
    assert time() >= ends
