"""A process for the SDP benchmark: many SDPs, each with a connection of its own, that say when a release takes effect.

It says `ready` when all stand at a release, and then a line with the time for each SDP that has applied the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from time import time

import uvloop

from authz import PublicKey
from authz.change import PolicyChange
from bus.nats import Connection
from sdp_cache import LeaseRules, SecondaryPoint, Step
from sdp_cache.point import FeedFollower, Following


class Telling(SecondaryPoint):
    """A secondary point that says when it has applied a change."""

    def receive(self, sequence: int, change: PolicyChange, now: float) -> Step:
        step = super().receive(sequence, change, now)
        print(time(), flush=True)
        return step


async def serve(url: str, trusted: PublicKey, count: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        feeds = []
        for number in range(count):
            bus = await stack.enter_async_context(Connection(url))
            following = Following("default", {trusted}, f"sdp-{id(stack)}-{number}", LeaseRules())
            feeds.append(await stack.enter_async_context(FeedFollower(bus, Telling(), following)))
        for feed in feeds:
            await feed.ready.wait()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until whoever measures closes it


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], PublicKey.parse(sys.argv[2]), int(sys.argv[3])))
