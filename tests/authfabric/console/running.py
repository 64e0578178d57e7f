"""A fabric with a console, for the tests of a module: real replicas, a real store, and three who may sign in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time

import httpx

from authfabric.console.viewers import token_hash
from authfabric.processes import ConsoleProcess, Fabric, Served, fabric, serve_console
from authz import Identity
from bus.audit import AuditStore
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import Bundle, File
from pdp.releases import Published, Publisher
from pep import Enforcer
from tests.waiting import PATIENCE

VERA, MALLORY = "vera's token, which is long enough", "mallory's token, which is long enough"
CONSOLE_POLICY = """
- uid: vera-looks
  effect: allow
  targets: {subject_id: vera, resource_id: /authfabric/console, action_id: [view, ask]}
  rules: {}
"""


def policies(reader: str, viewing: str = CONSOLE_POLICY) -> Bundle:
    """Who may read the sales, and look at the console."""
    text = f"""
- uid: {reader}-reads-sales
  description: One person reads the sales.
  effect: allow
  targets: {{subject_id: {reader}, resource_id: "/sales/*", action_id: read}}
  rules: {{}}
"""
    return Bundle.of([File("console.yaml", viewing), File("sales.yaml", text)])


@dataclass
class Place:
    """What the tests of a module share."""

    fabric: Fabric
    served: Served
    given: ConsoleProcess
    folder: Path

    async def push(self, reader: str, viewing: str = CONSOLE_POLICY) -> Published:
        async with connect(self.fabric.url, name="test") as bus:
            return await _push(bus, self.fabric.root, reader, viewing)

    async def add(self, name: str) -> None:
        trust = ["--trust", str(self.fabric.root.public)]
        await self.fabric.add(name, extra=[*trust, "--cache", str(self.folder / "releases")])

    async def ask(self, subject: str, object: str = "/sales/q1", action: str = "read") -> bool:
        async with Enforcer.connect(
            self.fabric.url, trust=[self.fabric.root.public], recycling=None, audit=True
        ) as pep:
            return (await pep.check(subject, object, action)).allowed


async def _push(bus, root: Identity, reader: str, viewing: str = CONSOLE_POLICY) -> Published:
    publisher = Publisher(bus, DEFAULT_DOMAIN, root, (), time)
    return await publisher.push(policies(reader, viewing), f"{reader} reads")


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    root = Identity.generate()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            fabric(0, policies=None, jetstream=folder / "store", root=root, keys=folder / "keys")
        )
        async with connect(running.url, name="test") as bus:
            await AuditStore(bus, DEFAULT_DOMAIN).create()
            await _push(bus, root, "alice")
        viewers = {token_hash(VERA): "vera", token_hash(MALLORY): "mallory"}
        given = ConsoleProcess(running.url, [root.public], root, viewers)
        found = Place(running, Served("", ""), given, folder)
        await found.add("pdp-1")
        await found.add("pdp-2")
        found.served = await stack.enter_async_context(serve_console(given))
        await _shown(found)
        yield found


async def _shown(place: Place) -> None:
    """Return when the console shows both replicas as deciding by what is in force."""
    async with httpx.AsyncClient(base_url=place.served.address) as client, asyncio.timeout(PATIENCE):
        await client.post("/sign-in", data={"token": place.given.token})
        while (await client.get("/")).text.count('data-state="in force"') < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
