"""Domains in accounts of one server: each has a stream of its own, which takes in what the others' brokers publish."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from authfabric.scenarios.testbed import ServerMode, stage
from authfabric.scenarios.viewing import Viewer, warm_up, watching
from pubsub_core.client.client import EventClient
from pubsub_core.client.subscriber import Subscriber
from pubsub_core.errors import UnknownType
from pubsub_core.types.event_type import AttributeType, EventType
from pubsub_core.types.signature import SignedType
from tests.waiting import once_it_works

OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}}\n"


async def subscribed(client: EventClient, name: str) -> Subscriber:
    """A subscription, as soon as the type's definition has come here."""
    return await once_it_works(lambda: client.subscriber(name), UnknownType, 30.0)


async def test_events_and_definitions_reach_the_brokers_of_another_account():
    async with stage(["west", "east"], ServerMode.ACCOUNTS) as domains:
        west, east = domains
        kind = EventType.new("west.News", west.key.public, [("headline", AttributeType.STRING)], uuid4)
        await west.publish_types(SignedType.sign(kind, west.key))
        await asyncio.gather(*(each.release(OPEN, force="accounts keep domains apart") for each in domains))
        await asyncio.gather(
            west.start_pdp(), east.start_pdp(), *(each.start_broker(domains, west.key) for each in domains)
        )
        async with west.client("ann", {}) as writer, east.client("bob", {}) as reader:
            publisher = await writer.publisher(kind.name)
            viewer = Viewer("bob", await subscribed(reader, kind.name))
            async with watching([viewer]):
                await warm_up(publisher, [viewer], {"headline": "warm-up"}, "headline")
                for number in range(50):
                    await publisher.publish(headline=str(number))
                await publisher.flush()
                await viewer.until(lambda event: event.attributes["headline"] == "49")
        seen = [event.attributes["headline"] for event in viewer.seen]
    assert [each for each in seen if each != "warm-up"] == [str(number) for number in range(50)]
