"""Clients use a broker only for types that somebody whom they trust vouches for it with."""

from __future__ import annotations

import asyncio
from time import time
from uuid import uuid4

import pytest

from authz import Identity
from bus.wire import subjects
from pep.trust.trust_store import UNVERIFIED
from pubsub_core.carriage.records import word_record
from pubsub_core.errors import BrokerUntrusted, SessionLost
from pubsub_core.events.gap import GapReason
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types.event_type import EventType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.town import NEWS, cut, take, take_beyond_gaps
from tests.waiting import PATIENCE, eventually


def say(place, word: bytes) -> None:
    """Tell all brokers a vouch."""
    what, data = word_record(word)
    place.bus.send(subjects.broker_record(place.domain, "anybody", what), data)


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
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 0.05)
    kind = await place.define("News", *NEWS)
    async with place.running("north"):
        client = await place.client("ann", "north")
        publisher, subscriber = await client.publisher(kind.name), await client.subscriber(kind.name)
        await publisher.publish(score=1)
        assert await take(subscriber, 1) == [{"score": 1}]
    await place.broker("north")
    await eventually(lambda: client.sessions_begun == 2)
    await publisher.publish(score=2)
    assert await take_beyond_gaps(subscriber, 1) == [{"score": 2}]


async def test_a_broker_cut_off_from_an_owner_delivers_nothing_of_it_after_a_restart_either(place, tmp_path):
    kind, file = await place.define("News", *NEWS), tmp_path / "north.known"
    async with place.running("north", known=file, owner_keys=(place.key,)):
        await eventually((tmp_path / "north.owners").exists)
    north = await place.broker("north", known=file)
    client = await place.client("ann", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    await publisher.publish(score=1)
    await publisher.flush()
    assert north.broker.counts.withheld == 1
    await place.broker("south", owner_keys=(place.key,))
    await eventually(lambda: north.broker.presence.within_reach(kind.id))
    await publisher.publish(score=2)
    assert (await anext(subscriber)).reason is GapReason.OWNER
    assert await take(subscriber, 1) == [{"score": 2}]


async def test_an_owner_that_promised_heartbeats_is_out_of_reach_until_it_is_heard_at_every_start(place):
    """With no file that remembers anything, and nobody there who could tell."""
    kind, key = await place.define("News", *NEWS), Identity.generate()
    word = vouch(key.public, [ALL], time() + 500, place.key, time(), heartbeats=True)
    async with (  # nobody has ever heard one, so that the promise alone says that there should be some
        place.running("north", identity=key, vouches=(word,)) as north,
        place.connected("ann", "north") as client,
    ):
        await client.subscriber(kind.name)
        publisher = await client.publisher(kind.name)
        await publisher.publish(score=0)
        await publisher.flush()
        assert north.broker.counts.withheld == 1
    async with (
        place.running("north", identity=key, vouches=(word,)) as north,
        place.running("south", owner_keys=(place.key,)),
        place.connected("ann", "north") as client,
    ):
        subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
        await eventually(lambda: north.broker.presence.within_reach(kind.id))
        await publisher.publish(score=1)
        assert await take(subscriber, 1) == [{"score": 1}]
    north = await place.broker("north", identity=key, vouches=(word,))
    client = await place.client("ann", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    await publisher.publish(score=2)
    await publisher.flush()
    assert north.broker.counts.withheld == 1
    await place.broker("south", owner_keys=(place.key,))
    await eventually(lambda: north.broker.presence.within_reach(kind.id))
    await publisher.publish(score=3)
    assert (await anext(subscriber)).reason is GapReason.OWNER
    assert await take(subscriber, 1) == [{"score": 3}]


async def test_a_type_that_is_learned_is_not_delivered_before_it_was_looked_at_whether_its_owner_is_heard(
    place, tmp_path, monkeypatch
):
    """Nothing is reviewed after the first time, so it has to be known as the type arrives."""
    monkeypatch.setattr("pubsub_core.server.service.TICK_SECONDS", 600.0)
    file = tmp_path / "north.known"
    file.with_suffix(".owners").write_text(str(place.key.public))
    north = await place.broker("north", known=file)
    kind = await place.define("News", *NEWS)
    await eventually(lambda: north.catalogue.knows(kind.id))
    client = await place.client("ann", "north")
    await client.subscriber(kind.name)
    publisher = await client.publisher(kind.name)
    await publisher.publish(score=1)
    await publisher.flush()
    assert north.broker.counts.withheld == 1


@pytest.mark.parametrize("promised_first", [True, False])
async def test_a_promise_of_heartbeats_counts_as_soon_as_the_type_and_the_vouch_are_there(
    place, monkeypatch, promised_first
):
    monkeypatch.setattr("pubsub_core.server.service.TICK_SECONDS", 600.0)
    owner, other = Identity.generate(), Identity.generate()
    north = await place.broker("north", names=(("*", owner.public),))
    client = await place.client("ann", "north")
    word = vouch(other.public, [ALL], time() + 500, owner, time(), heartbeats=True)
    if promised_first:
        say(place, word)
        await place.bus.flush()
    kind = await owned_by(place, owner)
    await eventually(lambda: north.catalogue.knows(kind.id))
    await client.subscriber(kind.name)
    if not promised_first:
        say(place, word)
        await eventually(lambda: word in north.web.words)
    publisher = await client.publisher(kind.name)
    await publisher.publish(score=1)
    await publisher.flush()
    assert north.broker.counts.withheld == 1


async def test_a_vouch_that_runs_out_ends_the_session_unless_there_is_another(place, monkeypatch):
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 0.05)
    kind, north = await place.define("News", *NEWS), Identity.generate()
    word = vouch(north.public, [ALL], time() + 2, place.key, time())
    service = await place.broker("north", identity=north, vouches=(word,))
    client = await place.client("ann", "north")
    subscriber = await client.subscriber(kind.name)
    ends = time() + 3.5
    longer = vouch(north.public, [ALL], ends, place.key, time())
    say(place, longer)
    await eventually(lambda: longer in service.web.words)
    await eventually(lambda: word not in service.web.words)
    with pytest.raises(SessionLost, match="is not trusted with"):
        await asyncio.wait_for(anext(subscriber), PATIENCE)
    assert time() >= ends
