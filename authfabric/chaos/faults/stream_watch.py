"""Looking at the servers' streams: who leads, and whether every copy is whole.

What servers say of their copies is not enough, so each is read, as the access control service does.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from authz import AuthFabricError
from bus.identity import Credentials
from bus.nats import Connection
from bus.stores import compare_copies, look_at_group
from bus.wire import subjects

STREAMS = (f"KV_{subjects.RELEASES}", f"KV_{subjects.CONTENT}", subjects.AUDIT, subjects.PARCELS)
COPIES = 3
LOOK_SECONDS = 0.5


class StoreWatch:
    """Asks about streams, as whoever may read all of them: `async with` it."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self._connection = Connection(url, name="watch", credentials=credentials)

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
            return (await look_at_group(self._connection, STREAMS[0])).leader
        except AuthFabricError:
            return ""

    async def healthy(self, seconds: float) -> bool:
        """Wait up to `seconds` until every copy of every stream has everything; says whether they have."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not await self._all_whole():  # noqa: ASYNC110 - it is other processes
                    await asyncio.sleep(LOOK_SECONDS)
                return True
        return False

    async def _all_whole(self) -> bool:
        try:
            groups = {stream: await look_at_group(self._connection, stream) for stream in STREAMS}
            if any(each.leader and (not each.whole or each.copies != COPIES) for each in groups.values()):
                return False
            for stream, group in groups.items():
                if group.leader and await compare_copies(self._connection, stream, group):
                    return False
        except AuthFabricError:
            return False
        return True
