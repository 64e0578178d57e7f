"""Spreading connections over the servers of a cluster: a server that joins takes its share of them.

Clients that lose a server gather at the others, and would stay there. Servers tell their clients which of them are
there. When some join, or come back, each client goes over to one of those with the probability of their share, at some
time within half a minute. So every client ends at each server with the same probability, nobody counts, and no more
move than have to.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from bus.errors import NotConnected
from bus.nats.dialing import place
from bus.runtime import end_task
from bus.wire import servers

if TYPE_CHECKING:
    from bus.nats.connection import Connection

SPREAD_SECONDS = 30.0
"""Time over which the clients of a cluster go over to a server that has joined."""

_log = logging.getLogger("authfabric.bus")


class Balancer:
    """Moves one connection to servers that join, if the lot falls on it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._moving: asyncio.Task[None] | None = None

    def joined(self, some: frozenset[str], count: int) -> None:
        """Some servers, each given as host and port, have joined; there are `count` now."""
        connection = self._connection
        named = some.intersection(map(place, servers(connection.url)))
        to = frozenset(server for server in named if not connection.avoid(server))
        if to and self._moving is None and random.random() < len(some) / count:
            self._moving = asyncio.create_task(self._move(to))

    async def end(self) -> None:
        """Give up a move that is under way."""
        if self._moving is not None:
            await end_task(self._moving)

    async def _move(self, to: frozenset[str]) -> None:
        try:
            await asyncio.sleep(random.uniform(0.0, SPREAD_SECONDS))
            if self._connection.ready and self._connection.server not in to:
                await self._connection.renew(lambda server: server not in to)
        except NotConnected as error:
            _log.debug("it stays where it is: %s", error)
        finally:
            self._moving = None
