"""A process for the bus benchmark: a PDP replica, and beside it a plain nats-py echo for comparison.

It reads its scopes from standard input, one a line up to an empty one, says `ready`, and answers every further
line with the number of questions it has decided, until the input ends. With the seed of a root's key, that root
empowers it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from time import time

import nats
import uvloop
from nats.aio.msg import Msg

from authfabric.warrants import empower
from authz import Identity
from bus.connection import Connection
from bus.scopes import Scope
from pdp.abac import Algorithm, read_policies
from pdp.abac.source import AbacSource
from pdp.engine import Engine
from pdp.service import Replica
from pdp.warrant import Warrant

READERS = ["alice", *(f"reader{n}" for n in range(99))]


def engine() -> Engine:
    """A hundred policies: each reader may read everything."""
    policies = [
        {
            "uid": f"{name}-reads",
            "effect": "allow",
            "targets": {"subject_id": name, "action_id": "read"},
            "rules": {},
        }
        for name in READERS
    ]
    return Engine([AbacSource(read_policies(json.dumps(policies)), Algorithm.DENY_OVERRIDES)])


async def serve(url: str, seed: str = "") -> None:
    holder = Identity.generate()
    warrant = (
        Warrant(holder, [empower(holder, Identity.from_seed(bytes.fromhex(seed)))], time()) if seed else None
    )
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
    async with Connection(url) as bus, Replica(bus, engine(), scopes, warrant=warrant) as replica:
        print("ready", flush=True)
        while await commands.readline():
            print(replica.answered, flush=True)
    await raw.close()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
