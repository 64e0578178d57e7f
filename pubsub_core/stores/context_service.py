"""A broker keeping up with the context tables of its domain: each change counts for the next event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from authz import PublicKey
from bus.errors import BusError
from bus.nats import Connection
from bus.runtime import in_background
from pubsub_core.rules import Context
from pubsub_core.stores.table_store import TableStore

AGAIN_SECONDS = 1.0
"""Pause after which it is tried again to read what could not be read."""


class ContextTables:
    """Brings tables from the domain's store into the context by which rules are judged."""

    def __init__(
        self,
        home: Connection,
        domain: str,
        trusted: Collection[PublicKey],
        network: bytes,
        context: Context,
    ) -> None:
        self._home = home
        self._store = TableStore(home, domain, trusted, network)
        self._news = asyncio.Event()
        context.tables = self._store.tables

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Read what there is, and whatever comes, while the stack is open."""
        if self._home.keeps_nothing:
            return
        await self._store.listen(self._news.set)
        try:
            await self._store.refresh()
        except BusError:
            self._news.set()
        self._home.on_ready.append(self._news.set)
        stack.callback(self._home.on_ready.remove, self._news.set)
        in_background(stack, self._follow)

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._store.refresh()
            except BusError:
                await asyncio.sleep(AGAIN_SECONDS)
                self._news.set()
