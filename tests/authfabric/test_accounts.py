"""Domains in accounts of one server: each has a stream of its own, which takes in what the others' brokers publish."""

from __future__ import annotations

import asyncio
from time import time
from uuid import uuid4

import pytest

from authfabric.scenarios.testbed import Domain, ServerMode, stage
from authfabric.scenarios.viewing import Viewer, warm_up, watching
from pdp.bundle import Bundle, File
from pubsub_core.client.client import EventClient
from pubsub_core.client.subscriber import Subscriber
from pubsub_core.errors import Refused, UnknownType
from pubsub_core.stores import TypeStore
from pubsub_core.types import Catalogue, OwnerPolicy, sign_policy
from pubsub_core.types.event_type import AttributeType, EventType
from pubsub_core.types.signature import SignedType
from tests.waiting import once_it_works

OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}}\n"
NOT_BOB = OPEN + "- {uid: no, effect: deny, rules: {}, targets: {subject_id: bob}}\n"
ATTRIBUTES = [("headline", AttributeType.STRING)]


async def subscribed(client: EventClient, name: str, until: type[Exception] = UnknownType) -> Subscriber:
    """A subscription, as soon as the type's definition, or its owner's policy, has come here."""
    return await once_it_works(lambda: client.subscriber(name), until, 30.0)


async def say(owner: Domain, kind: EventType, policies: str) -> None:
    """Have the owner of a type say who may use it, in its own account."""
    policy = OwnerPolicy(kind.id, time(), Bundle.of([File("owner.yaml", policies)]).pack())
    async with owner.connect("types", "connect|install") as bus:
        await TypeStore(bus, Catalogue()).publish_policy(sign_policy(policy, owner.key))


async def test_what_an_owner_says_binds_in_another_account_and_nothing_goes_without_it():
    """The other account has the definition before it can have heard of the policy, and permits everything."""
    async with stage(["west", "east"], ServerMode.ACCOUNTS) as domains:
        west, east = domains
        kind = EventType.new("west.Secret", west.key.public, ATTRIBUTES, uuid4, governed=True)
        for each in domains:
            await each.publish_types(SignedType.sign(kind, west.key))
            await each.release(OPEN, force="accounts keep domains apart")
        await say(west, kind, NOT_BOB)
        await asyncio.gather(east.start_pdp(), west.start_pdp(), east.start_broker(domains, west.key))
        async with east.client("ann", {}) as ann, east.client("bob", {}) as bob:
            with pytest.raises(Refused):
                await ann.subscriber(kind.name)
            await west.start_broker(domains, west.key)
            subscriber = await subscribed(ann, kind.name, Refused)
            with pytest.raises(Refused):
                await bob.subscriber(kind.name)
            async with west.client("cat", {}) as writer:
                publisher = await writer.publisher(kind.name)
                viewer = Viewer("ann", subscriber)
                async with watching([viewer]):
                    await warm_up(publisher, [viewer], {"headline": "warm-up"}, "headline")
            await say(west, kind, OPEN)
            await subscribed(bob, kind.name, Refused)


async def test_events_and_definitions_reach_the_brokers_of_another_account():
    async with stage(["west", "east"], ServerMode.ACCOUNTS) as domains:
        west, east = domains
        kind = EventType.new("west.News", west.key.public, ATTRIBUTES, uuid4)
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
