"""One process of the console: everything that `authfabric console serve` runs, put together."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from authfabric.console import (
    Granting,
    Live,
    OidcSignIn,
    Parts,
    Provider,
    Questions,
    Releasing,
    Viewers,
    console,
    read_types,
)
from authfabric.processes.domain_process import tell
from authz import Identity, PublicKey
from bus.feeds import RevocationFeed
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.access import DomainFolder, Issuer
from pep import Enforcer
from pep.gateway import Tls, serving

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
"""Names of this machine for itself."""


@dataclass(frozen=True, slots=True)
class ConsoleProcess:
    """What a console is told."""

    url: str
    trusted: Collection[PublicKey]
    identity: Identity | None = None
    """The key to sign releases with; None to look only."""
    viewers: Mapping[str, str] = field(default_factory=dict)
    """Names of viewers by the hashes of their tokens."""
    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    """Further names under which browsers reach it."""
    tls: Tls | None = None
    domain: str = DEFAULT_DOMAIN
    cases: Path | None = None
    """The test cases of the policies: a file, or the folder of policies."""
    folder: DomainFolder | None = None
    """The domain whose capabilities are shown."""
    issuer: Issuer | None = None
    """Who revokes members of it; None to look only."""
    capabilities: Path | None = None
    """A folder of further chains of capabilities."""
    managers: Callable[[], Sequence[Identity]] = tuple
    """Those managers of key groups, at any time, whose groups are shown."""
    network: bytes = b""
    """The secret under which brokers keep definitions of types."""
    provider: Provider | None = None
    """By whose word others sign in; None for tokens only."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """By which whoever runs it signs in."""


@dataclass(frozen=True, slots=True)
class Served:
    """A console that runs."""

    address: str
    link: str
    """Signs whoever runs it in: the token stands where browsers send it to nobody."""
    pep: Enforcer | None = None
    """What it asks by."""


@contextlib.asynccontextmanager
async def serve_console(given: ConsoleProcess) -> AsyncIterator[Served]:
    """Serve the console for the length of the block. Raises CannotListen, and what connecting raises."""
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(connect(given.url, name="console"))
        live = await stack.enter_async_context(Live(bus, given.domain, given.trusted))
        asking = Enforcer.connect(
            given.url, name="console", trust=list(given.trusted), domain=given.domain, recycling=None
        )
        pep = await stack.enter_async_context(asking)
        viewers = Viewers(pep, given.token, dict(given.viewers))
        hosts = [*LOOPBACK, given.host, *given.names]
        granting = Granting(given.folder, given.issuer, given.capabilities, tell)
        if given.folder is not None:
            await stack.enter_async_context(RevocationFeed(bus, granting.revocations.accept))
        parts = Parts(
            live,
            viewers,
            Releasing(live, given.identity, given.cases),
            Questions(pep, live),
            granting,
            partial(read_types, bus, given.network, given.managers),
            None if given.provider is None else OidcSignIn(given.provider),
        )
        app = console(parts, hosts)
        port = await stack.enter_async_context(serving(app, given.host, given.port, given.tls))
        shown = given.names[0] if given.names else given.host
        address = f"{'https' if given.tls else 'http'}://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        yield Served(address, f"{address}sign-in#{given.token}", pep)
