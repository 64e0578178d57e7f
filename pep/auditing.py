"""Whether decisions are recorded: if told to, or as soon as somebody has set up where they go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable

from bus.audit import AuditStore, AuditWriter
from bus.errors import StoreUnavailable
from bus.nats import Connection
from bus.runtime import in_background
from pep.member_name import member_name

LOOK_SECONDS = 0.5
"""How long connecting waits to hear whether there is an audit stream."""
LOOK_AGAIN_SECONDS = 30.0
"""How often it is looked whether there is an audit stream by now."""

_log = logging.getLogger("authfabric.pep")


@contextlib.asynccontextmanager
async def auditing(
    connection: Connection,
    domain: str,
    name: str,
    wanted: bool | None,
    begin: Callable[[AuditWriter], None],
    again: float = LOOK_AGAIN_SECONDS,
) -> AsyncIterator[None]:
    """Hand over what records decisions, for the length of a block: now, or as soon as there is an audit stream."""
    async with contextlib.AsyncExitStack() as stack:

        async def start() -> None:
            store = AuditStore(connection, domain, create=wanted is True)
            begin(await stack.enter_async_context(AuditWriter(store, member_name(name))))

        async def look() -> None:
            while True:
                await asyncio.sleep(again * random.uniform(0.75, 1.0))  # so that not all look at once
                if await _is_set_up(connection, domain, unknown=False):
                    break
            _log.warning("there is an audit stream of `%s` now: decisions are recorded from here on", domain)
            await start()

        if wanted or (wanted is None and await _is_set_up(connection, domain, unknown=True)):
            await start()
        elif wanted is None:
            in_background(stack, look)
        yield


async def _is_set_up(connection: Connection, domain: str, *, unknown: bool) -> bool:
    """Whether there is an audit stream; `unknown` if that cannot be told."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            return await AuditStore(connection, domain).exists()
    except StoreUnavailable:
        return False
    except TimeoutError:
        if unknown:  # there may be one, and what waits for it is bounded
            _log.warning("it is not known whether decisions are to be audited: they wait until it is")
        return unknown
