"""The publishing side of the event benchmark, in a process of its own: as a client of a broker, or by nats-py alone."""

from __future__ import annotations

import asyncio
import sys
from time import time

import nats
import uvloop

from authz import Identity
from benchmarks.events import BROKERS, EVENTS, WARM_UP, values
from pubsub_core.client import EventClient
from pubsub_core.events import Event, encode

COUNT = EVENTS + WARM_UP


async def plain(url: str, ids: str) -> None:
    """The same payloads, each a message."""
    client = await nats.connect(url)
    names = ids.split(",")
    for number in range(COUNT):
        attributes = dict(zip(names, values(number).values(), strict=True))
        event = Event("0" * 32, "1" * 32, b"k" * 32, time(), number, attributes)
        await client.publish("bench.plain", encode(event))
    await client.flush()
    await client.close()


async def brokers(url: str, seed: str, credential: str, kind: str) -> None:
    async with EventClient.connect(
        url,
        broker=BROKERS[0],
        domain="bench",
        identity=Identity.from_seed(bytes.fromhex(seed)),
        credential=bytes.fromhex(credential),
    ) as client:
        publisher = await client.publisher(kind)
        while not publisher.interested:
            client.interest_changed.clear()
            await client.interest_changed.wait()
        for number in range(COUNT):
            await publisher.publish(**values(number))
            if number % 128 == 127:
                await asyncio.sleep(0)
        await publisher.flush()


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    uvloop.run(plain(*words) if kind == "plain" else brokers(*words))
