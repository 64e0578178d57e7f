"""A network between a client and a server that injects faults: a loopback TCP proxy.

What is sent through a link that is cut neither arrives nor fails, as on a network that drops packets: TCP would send it
again, so once the link is mended everything that both ends still wait for arrives, late.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

CHUNK_BYTES = 65_536
RESENT_SECONDS = 0.2
"""How much later a lost packet arrives: the shortest time after which TCP sends it again."""


class Way:
    """One direction of a link."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.delay = 0.0
        """Seconds by which everything comes later."""
        self.loss = 0.0
        """The share of packets that has to be sent again."""

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    async def carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Carry bytes until one end closes."""
        with contextlib.suppress(OSError, RuntimeError):  # uvloop raises that for a closed transport
            while data := await source.read(CHUNK_BYTES):
                if self.delay or self.loss:
                    late = RESENT_SECONDS if random.random() < self.loss else 0.0
                    await asyncio.sleep(self.delay + late)
                await self._open.wait()
                target.write(data)
                await target.drain()
        target.close()


class Link:
    """Where clients connect instead of to the server: `url`."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.there, self.back = Way(), Way()
        """What clients send, and what the server sends."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def is_open(self) -> bool:
        return self.there.is_open and self.back.is_open

    @property
    def delay(self) -> float:
        """Seconds by which everything comes later, either way."""
        return max(self.there.delay, self.back.delay)

    @delay.setter
    def delay(self, seconds: float) -> None:
        self.there.delay = self.back.delay = seconds

    def cut(self) -> None:
        """Let nothing through, either way, until `mend`."""
        self.there.cut()
        self.back.cut()

    def mend(self) -> None:
        for way in (self.there, self.back):
            way.mend()
            way.delay = way.loss = 0.0

    def reset(self) -> None:
        """Break every connection at once, as a firewall that forgets its state does."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        self.reset()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.there._open.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        for way, source, target in ((self.there, reader, far_writer), (self.back, far_reader, writer)):
            task = asyncio.create_task(way.carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _, target=target: self._writers.discard(target))  # type: ignore[misc]


@contextlib.asynccontextmanager
async def link(url: str) -> AsyncIterator[Link]:
    """A link to a server for the length of a block."""
    host, _, port = url.removeprefix("nats://").rpartition(":")
    between = Link(host, int(port))
    await between.start()
    try:
        yield between
    finally:
        between.stop()
