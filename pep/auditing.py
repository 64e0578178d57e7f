"""Whether a PEP records its decisions: if told to, or if somebody has set up where they go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from bus.audit import AuditStore, AuditWriter
from bus.connection import Connection
from bus.errors import StoreUnavailable
from pep.secondary import member_name

LOOK_SECONDS = 0.5
"""How long connecting waits to hear whether there is an audit stream."""

_log = logging.getLogger("authfabric.pep")


@contextlib.asynccontextmanager
async def auditing(
    connection: Connection, domain: str, name: str, wanted: bool | None
) -> AsyncIterator[AuditWriter | None]:
    """What records decisions for the length of a block; None if nothing does."""
    if wanted is False or (wanted is None and not await _is_set_up(connection, domain)):
        yield None
        return
    store = AuditStore(connection, domain, create=wanted is True)
    async with AuditWriter(store, member_name(name)) as writer:
        yield writer


async def _is_set_up(connection: Connection, domain: str) -> bool:
    """Whether there is an audit stream. If that cannot be told there may be one: what waits for it is bounded."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await AuditStore(connection, domain).exists()
    except StoreUnavailable:
        return False
    except TimeoutError:
        _log.warning("it is not known whether decisions are to be audited: they wait until it is")
        return True
