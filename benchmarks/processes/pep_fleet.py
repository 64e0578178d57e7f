"""A process for the benchmark of scale: many caching PEPs, each with a connection of its own, that do nothing.

It says `ready` when all of them know the newest release, and ends with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import uvloop

from authz import PublicKey
from pep import Enforcer

AT_ONCE = 4
"""How many PEPs connect, and read the newest release, at the same time."""


async def serve(url: str, trusted: PublicKey, count: int) -> None:
    turn = asyncio.Semaphore(AT_ONCE)
    async with contextlib.AsyncExitStack() as stack:

        async def connect() -> None:
            async with turn:
                connecting = Enforcer.connect(url, trust=[trusted], connect_seconds=60.0)
                pep = await stack.enter_async_context(connecting)
                assert pep.secondary is not None
                await pep.secondary.feed.ready.wait()

        await asyncio.gather(*(connect() for _ in range(count)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)  # until whoever measures closes it


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], PublicKey.parse(sys.argv[2]), int(sys.argv[3])))
