"""Brokers on a real server: what is published at one is delivered at another, to those who may see it."""

from __future__ import annotations

import pytest

from bus import Connection
from bus.errors import StoreUnavailable
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import InvalidEvent, Refused, UnknownType
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.types.edit import Renamed, apply, find
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.town import NEWS, OPEN, rule, take, wanted
from tests.waiting import eventually


async def test_an_event_published_at_one_broker_is_delivered_at_another(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    subscriber = await reader.subscriber(kind.name, "score > 2 AND place = 'Soho'")
    publisher = await writer.publisher(kind.name)
    await wanted(publisher)
    for score in range(6):
        await publisher.publish(headline=f"h{score}", place="Soho", score=score)
        await publisher.publish(headline="no", place="Leeds", score=score)
    await publisher.flush()
    assert [each["headline"] for each in await take(subscriber, 3)] == ["h3", "h4", "h5"]


async def test_a_broker_that_starts_while_the_store_does_not_answer_knows_its_types_afterwards(
    place, monkeypatch
):
    kind = await place.define("News", *NEWS)
    original, silent = TypeStore.refresh, iter(["at the start", "after it"])

    async def refresh(self: TypeStore) -> bool:
        if next(silent, None):
            raise StoreUnavailable("no answer")
        return await original(self)

    async def unknown(self: Connection) -> bool:
        return False

    monkeypatch.setattr(TypeStore, "refresh", refresh)
    monkeypatch.setattr(Connection, "has_jetstream", unknown)
    north = await place.broker("north")
    await eventually(lambda: north.catalogue.knows(kind.id))


async def test_events_of_several_types_that_are_published_together_reach_whom_each_is_for(place):
    kinds = [await place.define(name, *NEWS) for name in ("News", "Sports")]
    north, south = await place.broker("north"), await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    subscribers = [await reader.subscriber(kind.name, "score > 1") for kind in kinds]
    publishers = [await writer.publisher(kind.name) for kind in kinds]
    for publisher in publishers:
        await wanted(publisher)
    for number in range(8):
        await publishers[number % 2].publish(score=number)
    await publishers[0].flush()
    assert [each["score"] for each in await take(subscribers[0], 3)] == [2, 4, 6]
    assert [each["score"] for each in await take(subscribers[1], 3)] == [3, 5, 7]
    assert north.broker.counts.forwarded == south.broker.counts.received == 8
    assert south.broker.counts.verified == 2, "they came in a parcel for each type"


async def test_a_broker_reads_the_types_that_its_clients_want_and_no_others(place):
    kinds = [await place.define(name, *NEWS) for name in ("News", "Sports")]
    north, south = await place.broker("north"), await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    subscriber = await reader.subscriber(kinds[0].name, "place = 'Soho'")
    publishers = [await writer.publisher(kind.name) for kind in kinds]
    await wanted(publishers[0])
    assert not publishers[1].interested
    for number in range(100):
        await publishers[1].publish(score=number)
    await publishers[0].publish(place="Soho", score=0)
    await publishers[0].flush()
    assert await take(subscriber, 1) == [{"place": "Soho", "score": 0}]
    assert north.broker.counts.published == north.broker.counts.forwarded == 101
    assert south.broker.counts.received == 1


async def test_publishers_learn_whether_anybody_is_interested(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    publisher = await writer.publisher(kind.name)
    assert not publisher.interested
    subscriber = await reader.subscriber(kind.name)
    await wanted(publisher)
    await subscriber.cancel()
    await eventually(lambda: not publisher.interested)


async def test_what_does_not_fit_is_refused_with_its_name(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    client = await place.client("ann", "north")
    publisher = await client.publisher(kind.name)
    with pytest.raises(InvalidEvent, match="`score` must be a whole number"):
        await publisher.publish(score="many")
    client._outgoing.add(kind, {find(kind, "score").id: "many"})  # a client that does not look
    with pytest.raises(InvalidEvent, match="`score` must be a whole number"):
        await publisher.flush()
    with pytest.raises(CallRefused, match="`colour` is not an attribute"):
        await client.subscriber(kind.name, "colour = 'red'")
    with pytest.raises(CallRefused, match="cannot stand here"):
        await client.subscriber(kind.name, "score >")
    with pytest.raises(UnknownType):
        await client.subscriber("no.such.Type")
    other = await place.define("Other", *NEWS)
    client._outgoing.add(other, {})
    with pytest.raises(InvalidEvent, match="advertised"):
        await publisher.flush()


async def test_versions_live_side_by_side(place):
    old = await place.define("News", *NEWS)
    await place.broker("north")
    reader = await place.client("bob", "north")
    by_old = await reader.subscriber(old.name)
    new = apply(old, [Renamed(find(old, "place"), "town")])
    await place.types.publish(SignedType.sign(new, place.key))
    await eventually(lambda: any(new.version in each.catalogue for each in place.services))
    late = await place.client("cid", "north")
    by_new = await late.subscriber(old.name)
    writer = await place.client("ann", "north")
    publisher = await writer.publisher(old.name)
    await publisher.publish(town="Soho")
    await publisher.flush()
    assert await take(by_old, 1) == [{"place": "Soho"}]
    assert await take(by_new, 1) == [{"town": "Soho"}]


async def test_types_are_added_and_removed_through_a_broker_by_those_who_may(place):
    kind = await place.define("Seen", *NEWS)
    await place.broker("north")
    owner = await place.client("owner", "north", place.key)
    made = SignedType.sign(apply(kind, [Renamed(find(kind, "place"), "town")]), place.key)
    await owner.add_type(made)
    stranger = await place.client("ann", "north")
    with pytest.raises(Refused, match="only its owner"):
        await stranger.remove_type(kind.name)
    await owner.remove_type(kind.name)
    with pytest.raises(UnknownType):
        await owner.subscriber(kind.name)
    epoch = await place.release(OPEN + rule("no", effect="deny", action_id="define"))
    await eventually(lambda: place.services[0].claims.epoch >= epoch)
    with pytest.raises(Refused):
        await owner.add_type(made)
