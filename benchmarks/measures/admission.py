"""What admission costs: connecting where an access control service decides, and being disconnected by it."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, perf_counter, time

from authfabric.processes import SERVICE, LocalDomain
from authz import Identity
from authz.spki import Notice, encode_chain, parse_authority
from bus.feeds import publish_notice
from bus.identity import Credentials, Lifetime, client_context
from bus.nats import Connection
from bus.server import NatsServer
from pdp.access import AccessService

CONNECTIONS = 60
REVOCATIONS = 100
LASTS = 600.0


async def admission() -> dict[str, float]:
    """Milliseconds to connect (median), beside a bare server's; and from a revocation to the end (of 100, the 99th)."""
    async with NatsServer() as bare, _secured() as (domain, access):
        times: dict[str, list[float]] = {"bare": [], "secured": []}
        for _ in range(CONNECTIONS):
            times["bare"].append(await _connect(bare.url, None))
            times["secured"].append(await _connect(domain.folder.file.url, _credentials(domain)[0]))
        ends = sorted([await _revoke(domain, access) for _ in range(REVOCATIONS)])
    return {
        "connect_ms": statistics.median(times["secured"]) * 1000,
        "connect_bare_ms": statistics.median(times["bare"]) * 1000,
        "revoke_to_disconnect_ms": ends[int(len(ends) * 0.99) - 1] * 1000,
        "revoke_to_disconnect_median_ms": statistics.median(ends) * 1000,
    }


@asynccontextmanager
async def _secured() -> AsyncIterator[tuple[LocalDomain, AccessService]]:
    with tempfile.TemporaryDirectory() as folder:
        domain = LocalDomain.find(Path(folder, "domain"))
        async with NatsServer(jetstream=True, extra=domain.configuration()) as server:
            domain = domain.at_url(server.url)
            async with domain.serving() as access:
                yield domain, access


def _credentials(domain: LocalDomain) -> tuple[Credentials, Notice]:
    """Credentials for somebody new, and what takes them back."""
    holder, lifetime = Identity.generate(), Lifetime(time(), LASTS)
    certificate = domain.issuer.grant(holder.public, parse_authority(SERVICE), lifetime)
    own = domain.folder.certify_member(domain.issuer, holder.public, lifetime)
    context = client_context(holder, own, domain.folder.server_authority)
    notice = Notice.event(domain.issuer.service, certificate, int(time()))
    return Credentials(holder, encode_chain([certificate]), context), notice


async def _connect(url: str, credentials: Credentials | None) -> float:
    start = perf_counter()
    async with Connection(url, credentials=credentials):
        return perf_counter() - start


async def _revoke(domain: LocalDomain, access: AccessService) -> float:
    """From the moment at which somebody asks for it until the connection is gone."""
    credentials, notice = _credentials(domain)
    async with Connection(domain.folder.file.url, credentials=credentials) as connection:
        start = monotonic()
        await publish_notice(access.member, notice)
        while connection.ready:  # noqa: ASYNC110 - nothing is told to whoever waits for a loss
            await asyncio.sleep(0.0005)
        return monotonic() - start
