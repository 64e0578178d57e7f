"""How much brokers receive of a type that is routed by content, beside what their clients ask for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from uuid import uuid4

from authz import Identity
from benchmarks.carriage import DOMAIN, Willing, client_of
from benchmarks.carriage import serving as serving_of
from bus.nats import Connection
from bus.server import NatsServer
from bus.wire import Scope
from pdp.replica import Replica
from pubsub_core.server import serve_broker
from pubsub_core.stores import TypeStore
from pubsub_core.types import AttributeType, Catalogue, EventType, SignedType

BROKERS = 16
VALUES = 64
"""How many values the routing attribute has: each broker's client asks for one."""
BITS = 12
EVENTS = 64 * VALUES


async def routed() -> dict[str, float]:
    """Events that brokers receive for each that their clients need, and what it would be without routing."""
    owner = Identity.generate()
    attributes = [("plate", AttributeType.STRING), ("place", AttributeType.STRING)]
    kind = EventType.new("bench.Routed", owner.public, attributes, uuid4, routed="plate", bits=BITS)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(NatsServer(jetstream=True))
        bus = await enter(Connection(server.url))
        await TypeStore(bus, Catalogue()).publish(SignedType.sign(kind, owner))
        await enter(Replica(bus, Willing(), [Scope.parse(f"domain:{DOMAIN}")]))
        brokers = [
            await enter(serve_broker(serving_of(server.url, owner, number))) for number in range(BROKERS + 1)
        ]
        readers = []
        for number in range(1, BROKERS + 1):
            client = await enter(client_of(server.url, owner, number))
            readers.append(await client.subscriber(kind.name, f"plate == 'P{number}'"))
        writer = await enter(client_of(server.url, owner, 0))
        publisher = await writer.publisher(kind.name)
        await publisher.wanted()
        for number in range(EVENTS):
            await publisher.publish(plate=f"P{number % VALUES}", place="Victoria")
        await publisher.flush()
        needed = EVENTS // VALUES
        for each in readers:
            async with asyncio.timeout(30.0):
                seen = [await anext(each) for _ in range(needed)]
            assert len(seen) == needed
        received = sum(each.broker.counts.received for each in brokers)
        parcels = brokers[0].broker.counts.forwarded
        assert parcels == EVENTS
    return {"routed_share": received / (needed * BROKERS), "unrouted_share": float(VALUES)}
