"""Leaving a server that is cut off from the others: it answers pings, and knows nobody.

A client notices when its server dies or freezes. A server that has lost its links to the rest of the cluster looks well
from outside. So whoever misses what it needs, the store or a PDP, for a few seconds tries another server.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from bus.errors import NotConnected
from bus.nats.connection import Connection
from bus.wire import servers

FIRST_SECONDS = 2.0
"""Seconds without service before another server is tried; doubled with each attempt in a row."""
LONGEST_SECONDS = 60.0


class Relocation:
    """Moves a connection to another server while what it is for cannot be had where it is."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._missed_since: float | None = None
        self._patience = FIRST_SECONDS
        self._moving: asyncio.Task[None] | None = None

    def found(self) -> None:
        """What is needed is there."""
        self._missed_since, self._patience = None, FIRST_SECONDS

    def missed(self) -> None:
        """What is needed is not there, although the connection is."""
        now = monotonic()
        if not self._connection.ready or self._missed_since is None:
            self._missed_since = now
        elif now - self._missed_since > self._patience and self._moving is None:
            self._missed_since, self._patience = None, min(2 * self._patience, LONGEST_SECONDS)
            if len(servers(self._connection.url)) > 1:
                self._moving = asyncio.create_task(self._move())

    async def _move(self) -> None:
        try:
            await self._connection.move()
        except NotConnected:
            self._patience = FIRST_SECONDS  # it stays where it is, and tries again as soon
        finally:
            self._moving = None
