"""A publisher and a subscriber of one type, in a process of their own: how long deliveries pause at most.

Each line on its input asks for the longest pause since the last; events go out every millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from time import perf_counter

import uvloop

from authz import Identity
from pubsub_core.client import EventClient, Publisher, Subscriber

PACE_SECONDS = 0.001


async def run(url: str, seed: str, credential: str, kind: str, near: str, far: str) -> None:
    """Publish at one broker, and read at another."""

    def client(broker: str) -> contextlib.AbstractAsyncContextManager[EventClient]:
        identity = Identity.from_seed(bytes.fromhex(seed))
        return EventClient.connect(
            url, broker=broker, domain="bench", identity=identity, credential=bytes.fromhex(credential)
        )

    async with client(near) as writer, client(far) as reader, asyncio.TaskGroup() as group:
        pauses = Pauses(await reader.subscriber(kind))
        publisher = await writer.publisher(kind)
        tasks = [group.create_task(pauses.watch()), group.create_task(publish(publisher))]
        await pauses.first.wait()
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(pauses.longest(), flush=True)
        for each in tasks:
            each.cancel()


class Pauses:
    """The pauses between two deliveries."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._longest = 0.0
        self._last = 0.0
        """When something was delivered last."""
        self.first = asyncio.Event()

    async def watch(self) -> None:
        await anext(self._subscriber)
        self.first.set()
        self._last = perf_counter()
        while True:
            await anext(self._subscriber)
            now = perf_counter()
            self._longest, self._last = max(self._longest, now - self._last), now

    def longest(self) -> float:
        """Seconds of the longest since this was last asked, which may be the one that has not ended."""
        longest, self._longest = max(self._longest, perf_counter() - self._last), 0.0
        return longest


async def publish(publisher: Publisher) -> None:
    number = 0
    while True:
        number += 1
        await publisher.publish(lane=number)
        await asyncio.sleep(PACE_SECONDS)


if __name__ == "__main__":
    uvloop.run(run(*sys.argv[1:]))
