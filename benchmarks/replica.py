"""A process for the bus benchmark: a PDP replica, and beside it a plain nats-py echo for comparison.

It reads its scopes from standard input, one a line up to an empty one, says `ready`, and answers every further
line with the number of questions it has decided, until the input ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import nats
import uvloop
from nats.aio.msg import Msg

from authz import Decision, Reason, Request
from bus.connection import Connection
from bus.scopes import Scope
from pdp.service import Replica


class Yes:
    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        return [Decision(True, Reason.POLICY, ("p1",)) for _ in requests]


async def serve(url: str) -> None:
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    scopes = []
    while line := (await commands.readline()).decode().strip():
        scopes.append(Scope.parse(line))

    async def echo(message: Msg) -> None:
        await message.respond(message.data)

    raw = await nats.connect(url)
    await raw.subscribe("raw", cb=echo)
    await raw.flush()
    async with Connection(url) as bus, Replica(bus, Yes(), scopes) as replica:
        print("ready", flush=True)
        while await commands.readline():
            print(replica.answered, flush=True)
    await raw.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
