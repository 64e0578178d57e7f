"""A network between a client and a server that can be slow, or cut: what is sent then neither arrives nor fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Link:
    """Where clients connect instead: `url`. `cut()` swallows everything both ways until `mend()`."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("nats://").rpartition(":")
        self._port = int(port)
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.delay = 0.0
        """Seconds by which everything comes later."""

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                await self._open.wait()
                await asyncio.sleep(self.delay)
                target.write(data)
                await target.drain()
        target.close()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def link(url: str) -> AsyncIterator[Link]:
    """A link to a server for the length of a block."""
    between = Link(url)
    server = await asyncio.start_server(between.connect, "127.0.0.1", 0)
    between.url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield between
    finally:
        server.close()
        between.stop()
