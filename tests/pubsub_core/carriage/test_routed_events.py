"""Routed types between real brokers: each reads what its clients ask for, gets all of it, and little else."""

from __future__ import annotations

from uuid import uuid4

import pytest

from pubsub_core.types.event_type import EventType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.town import NEWS, take, wanted
from tests.waiting import eventually

PLACES = [f"place {number}" for number in range(50)]


@pytest.fixture(params=["file", "memory"])
async def kind(place, request):
    kind = EventType.new(
        f"{place.domain}.News", place.key.public, NEWS, uuid4, routed="place", bits=12, storage=request.param
    )
    await place.types.publish(SignedType.sign(kind, place.key))
    return kind


async def test_a_broker_reads_what_its_clients_ask_for(place, kind):
    await place.broker("north")
    south = await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    some = await reader.subscriber(kind.name, "place in ('place 1', 'place 2')")
    publisher = await writer.publisher(kind.name)
    await wanted(publisher)
    for number in range(2):
        for each in PLACES:
            await publisher.publish(headline=str(number), place=each, score=1)
    await publisher.flush()
    seen = await take(some, 4)
    assert sorted((each["place"], each["headline"]) for each in seen) == [
        ("place 1", "0"), ("place 1", "1"), ("place 2", "0"), ("place 2", "1"),
    ]  # fmt: skip
    assert south.broker.counts.received <= 10
    every = await reader.subscriber(kind.name, "score > 0")
    for each in PLACES:
        await publisher.publish(headline="all", place=each, score=1)
    await publisher.flush()
    assert {each["place"] for each in await take(every, len(PLACES))} == set(PLACES)
    assert {each["place"] for each in await take(some, 2)} == {"place 1", "place 2"}
    before = south.broker.counts.received
    await every.cancel()
    await eventually(lambda: len(south.broker.subscriptions.routes()[kind.id] or ()) == 2)
    await south.broker.interest.settled()
    for each in PLACES:
        await publisher.publish(headline="some", place=each, score=1)
    await publisher.flush()
    await take(some, 2)
    assert south.broker.counts.received - before <= 10
