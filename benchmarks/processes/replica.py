"""A process for the bus benchmark: a PDP replica, or several, and beside it a plain nats-py echo for comparison.

It reads its scopes from standard input, one a line up to an empty one, says `ready`, and answers every further
line with the number of questions it has decided, until the input ends. With the seed of a root's key, that root
empowers it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from time import time

import nats
import uvloop
from nats.aio.msg import Msg

from authfabric.files import empower
from authz import Identity
from bus.nats import Connection
from bus.wire import Scope
from pdp.abac import AbacSource, Algorithm, read_policies
from pdp.engine import Engine
from pdp.replica import AnswerAuthority, Replica

READERS = ["alice", *(f"reader{n}" for n in range(99))]


def policies() -> str:
    """A hundred policies: each reader may read everything."""
    each = [
        {
            "uid": f"{name}-reads",
            "effect": "allow",
            "targets": {"subject_id": name, "action_id": "read"},
            "rules": {},
        }
        for name in READERS
    ]
    return json.dumps(each)


def engine() -> Engine:
    return Engine([AbacSource(read_policies(policies()), Algorithm.DENY_OVERRIDES)])


def authority(seed: str) -> AnswerAuthority | None:
    if not seed:
        return None
    holder = Identity.generate()
    return AnswerAuthority(holder, [empower(holder, Identity.from_seed(bytes.fromhex(seed)))], time())


async def serve(url: str, seed: str = "", count: str = "1") -> None:
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
    async with contextlib.AsyncExitStack() as stack:
        replicas = list[Replica]()
        for _ in range(int(count)):
            bus = await stack.enter_async_context(Connection(url))
            replica = Replica(bus, engine(), scopes, authority=authority(seed))
            replicas.append(await stack.enter_async_context(replica))
        print("ready", flush=True)
        while await commands.readline():
            print(sum(replica.answered for replica in replicas), flush=True)
    await raw.close()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
