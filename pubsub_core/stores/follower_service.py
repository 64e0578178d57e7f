"""Following a store of records: it is read when it changes, and when the connection has come back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from bus.errors import BusError
from bus.nats import Connection, Subscription

AGAIN_SECONDS = 1.0
"""Pause in seconds after a store could not be read."""

_log = logging.getLogger("authfabric.events")


class Store(Protocol):
    """Records that are taken in as they are written."""

    async def refresh(self) -> bool:
        """Take in what is new; says whether anything was. Raises BusError."""

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be something new."""


class StoreFollower:
    """Reads one store whenever there may be something new."""

    def __init__(
        self,
        connection: Connection,
        store: Store,
        content: str,
        on_new: Callable[[], Awaitable[None]] | None = None,
        permitted: asyncio.Event | None = None,
    ) -> None:
        """`content` names in messages what the store holds. Nothing is read unless `permitted` is set.

        `on_new` is called after something new was taken in.
        """
        self._connection = connection
        self._store = store
        self._content = content
        self._on_new = on_new
        self._permitted = permitted
        self._news = asyncio.Event()

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Read the store, without a call of `on_new`, and follow its changes while the stack is open."""
        await self._store.listen(self._news.set)
        self._connection.on_ready.append(self._news.set)
        stack.callback(self._connection.on_ready.remove, self._news.set)
        if self._permitted is None or self._permitted.is_set():
            with contextlib.suppress(BusError):
                await self._store.refresh()
        self._news.set()  # for what is written meanwhile, or could not be read

    def read_again(self) -> None:
        """Read the store soon, whether or not it has changed."""
        self._news.set()

    async def follow(self) -> None:
        """Read whatever comes, until cancelled."""
        problem = ""
        while True:
            await self._news.wait()
            if self._permitted is not None:
                await self._permitted.wait()
            self._news.clear()
            try:
                new = await self._store.refresh()
            except BusError as error:
                if str(error) != problem:
                    _log.warning("%s cannot be read: %s", self._content, error)
                problem = str(error)
                await asyncio.sleep(AGAIN_SECONDS)
                self._news.set()
                continue
            problem = ""
            if new and self._on_new is not None:
                await self._on_new()
