"""Looking at the servers' streams: who leads, and whether every copy is whole."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from types import TracebackType
from typing import Self

from authz import AuthFabricError
from bus.identity import read_credentials
from bus.nats import Connection
from bus.services import look_at_copies
from bus.wire import subjects

STREAMS = (f"KV_{subjects.RELEASES}", f"KV_{subjects.CONTENT}", subjects.AUDIT)
COPIES = 3
LOOK_SECONDS = 0.5


class StoreWatch:
    """A member that asks about streams: `async with` it."""

    def __init__(self, url: str, credentials: Path) -> None:
        self._connection = Connection(
            url, name="watch", credentials=read_credentials(credentials).credentials
        )

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.__aexit__(kind, error, trace)

    async def leader(self) -> str:
        """The server that leads the stream of releases; nothing if none does."""
        try:
            return (await look_at_copies(self._connection, STREAMS[0])).leader
        except AuthFabricError:
            return ""

    async def healthy(self, seconds: float) -> bool:
        """Wait up to `seconds` until every copy of every stream is up to date; says whether they are."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._all_current():  # noqa: ASYNC110 - it is other processes
                    await asyncio.sleep(LOOK_SECONDS)
                return True
        return False

    async def _all_current(self) -> bool:
        try:
            found = [await look_at_copies(self._connection, stream) for stream in STREAMS]
        except AuthFabricError:
            return False
        return all(each.current == COPIES for each in found)
