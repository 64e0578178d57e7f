"""A secured fabric with a console, for the tests of a module: real replicas, a real store, a provider of identities,
and several who may sign in."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time

import httpx
import pytest

from authfabric.console import Provider, token_hash
from authfabric.processes import OPERATOR, SERVICE, ConsoleProcess, Fabric, Served, fabric, serve_console
from authz import Identity
from bus.audit import AuditStore
from bus.identity.credentials_store import VARIABLE
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import Bundle, File
from pdp.releases import Published, Publisher
from pep import Enforcer
from tests.authfabric.console.provider import CLIENT, SECRET, OidcProvider, oidc_provider
from tests.waiting import PATIENCE

VERA, MALLORY = "vera's token, which is long enough", "mallory's token, which is long enough"
CONSOLE_POLICY = """
- uid: vera-looks
  effect: allow
  targets: {subject_id: vera, resource_id: /authfabric/console, action_id: [view, ask]}
  rules: {}
- uid: security-looks
  effect: allow
  targets: {resource_id: /authfabric/console, action_id: [view, ask]}
  rules:
    subject: {$.groups: {condition: AnyIn, values: [security]}}
"""
ENTITIES = """
subjects: {alice: {role: clerk}, bob: {role: clerk}, zoe: {role: boss}}
objects: [/sales/q1, /sales/q2]
actions: [read, write]
"""
CASES = """
- {subject: SUBJECT, object: /sales/q1, action: read, expect: allow}
- {subject: mallory, object: /sales/q1, action: read, expect: deny}
- {name: nobody writes, subject: alice, object: /sales/q1, action: write, expect: allow}
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
    files = File("console.yaml", viewing), File("sales.yaml", text), File("entities.yaml", ENTITIES)
    return Bundle.of(files)


@dataclass
class Place:
    """What the tests of a module share."""

    fabric: Fabric
    served: Served
    given: ConsoleProcess
    folder: Path
    provider: OidcProvider
    credentials: Path

    @contextmanager
    def entitled(self) -> Iterator[None]:
        """Let the environment name the operator's credentials: tests begin without any."""
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(VARIABLE, str(self.credentials))
            yield

    async def push(self, reader: str, viewing: str = CONSOLE_POLICY) -> Published:
        with self.entitled():
            async with connect(self.fabric.url, name="test") as bus:
                return await _push(bus, self.fabric.root, reader, viewing)

    async def add(self, name: str) -> None:
        trust = ["--trust", str(self.fabric.root.public)]
        await self.fabric.add(name, extra=[*trust, "--cache", str(self.folder / "releases")])

    async def ask(self, subject: str, object: str = "/sales/q1", action: str = "read") -> bool:
        with self.entitled():
            trust = [self.fabric.root.public]
            async with Enforcer.connect(self.fabric.url, trust=trust, recycling=None, audit=True) as pep:
                return (await pep.check(subject, object, action)).allowed

    async def recycle(self, subject: str) -> None:
        """Ask the same again and again, until cancelled, from a service that recycles answers; now and then else."""
        with self.entitled():
            trust = [self.fabric.root.public]
            async with Enforcer.connect(self.fabric.url, trust=trust, audit=True) as pep:
                for number in itertools.count():
                    await pep.check(subject, "/sales/q1", "read")
                    if number % 4 == 0:
                        await pep.check(f"guest-{number}", "/sales/q1", "read")
                    await asyncio.sleep(0.05)


async def _push(bus, root: Identity, reader: str, viewing: str = CONSOLE_POLICY) -> Published:
    publisher = Publisher(bus, DEFAULT_DOMAIN, root, (), time)
    return await publisher.push(policies(reader, viewing), f"{reader} reads")


@asynccontextmanager
async def place(folder: Path) -> AsyncIterator[Place]:
    root = Identity.generate()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            fabric(0, policies=None, jetstream=folder / "store", root=root, keys=folder / "keys", secure=True)
        )
        users: dict[str, dict[str, object]] = {
            "nina": {"name": "nina", "groups": ["security"]},
            "otto": {"name": "otto", "groups": ["sales"]},
        }
        provider = await stack.enter_async_context(oidc_provider(folder, users))
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        operator = running.hand_out("operator", OPERATOR)
        assert operator is not None
        environment.setenv(VARIABLE, str(operator))
        environment.setenv("SSL_CERT_FILE", str(provider.certificate))
        running.hand_out("web", SERVICE)
        (folder / "secret").write_text(SECRET)
        (folder / "cases.yaml").write_text(CASES.replace("SUBJECT", "alice"))
        async with connect(running.url, name="test") as bus:
            await AuditStore(bus, DEFAULT_DOMAIN).create()
            await _push(bus, root, "alice")
        viewers = {token_hash(VERA): "vera", token_hash(MALLORY): "mallory"}
        assert running.local is not None
        given = ConsoleProcess(
            running.url,
            [root.public],
            root,
            viewers,
            cases=folder / "cases.yaml",
            folder=running.local.folder,
            issuer=running.local.issuer,
            provider=Provider(
                provider.issuer, CLIENT, str(folder / "secret"), claim="name", attributes=("groups",)
            ),
        )
        found = Place(running, Served("", ""), given, folder, provider, operator)
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
