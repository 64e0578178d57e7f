"""The revocation feed: notices in a store that everyone reads, with a push for each new one.

The store is trusted with nothing but keeping: whoever reads a notice verifies it. Nothing is ever taken out, so what
was missed while a connection was away is found when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from authz import AuthFabricError
from authz.spki import Notice
from authz.spki.capability import decode, encode
from authz.spki.revocation import MAX_NOTICE_BYTES
from bus.connection import Connection
from bus.errors import BusError
from bus.record_store import RecordStore
from bus.subjects import REVOCATIONS
from bus.tasks import in_background

LOOK_SECONDS = 10.0
"""How often the store is asked at least, besides whenever there is news."""
RETRY_SECONDS = 0.5
"""How soon it is asked again as long as it has never answered."""

_log = logging.getLogger("authfabric.bus")


async def publish_notice(connection: Connection, notice: Notice) -> None:
    """Let everyone know. Raises StoreUnavailable."""
    data = encode(notice)
    name = f"{notice.issuer}.{hashlib.sha256(data).hexdigest()}"
    await RecordStore(connection, REVOCATIONS).put(name, data)


class RevocationFeed:
    """`async with RevocationFeed(bus, accept)`: hands over every notice that is stored, and each new one."""

    def __init__(self, connection: Connection, accept: Callable[[Notice], object]) -> None:
        """`accept` verifies what it is given, and raises an AuthFabricError for what is not well signed."""
        self._connection = connection
        self._accept = accept
        self._store = RecordStore(connection, REVOCATIONS)
        self._news = asyncio.Event()
        self._seen = 0
        self._stack = contextlib.AsyncExitStack()
        self.refused = 0
        """How many records were no notices, or forged."""
        self.read = asyncio.Event()
        """Set once everything that was stored before has been handed over."""
        self._looked = asyncio.Event()

    async def __aenter__(self) -> Self:
        subscription = await self._store.listen(self._news.set)
        self._stack.push_async_callback(subscription.cancel)
        self._connection.on_ready.append(self._news.set)
        self._stack.callback(self._connection.on_ready.remove, self._news.set)
        in_background(self._stack, self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(BusError):
            await self._stack.aclose()

    async def first_look(self, seconds: float) -> None:
        """Return when the store was asked for the first time, answer or not; at the latest after so many seconds."""
        try:
            await asyncio.wait_for(self._looked.wait(), seconds)
        except TimeoutError:
            _log.warning("what was revoked is not known yet: the store does not answer")

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(BusError):  # without a store nothing can have been taken back there
                for record in await self._store.since(self._seen):
                    if record.data:  # whoever takes one out takes nothing back
                        self._take(record.data)
                    self._seen = record.number
                self.read.set()
            self._looked.set()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(
                    self._news.wait(), LOOK_SECONDS if self.read.is_set() else RETRY_SECONDS
                )
            self._news.clear()

    def _take(self, data: bytes) -> None:
        try:
            self._accept(decode(data, Notice, MAX_NOTICE_BYTES))
        except AuthFabricError as error:
            self.refused += 1
            _log.warning("a revocation is not heeded: %s", error)
