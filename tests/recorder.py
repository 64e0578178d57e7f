"""A wire between a client and the server that remembers what the client said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Recorder:
    """What came through, and where to connect to."""

    def __init__(self) -> None:
        self.said = bytearray()
        self.url = ""

    @property
    def words(self) -> list[bytes]:
        """The first word of each line that the client said."""
        return [line.split()[0] for line in bytes(self.said).splitlines() if line]


@contextlib.asynccontextmanager
async def recorder(url: str) -> AsyncIterator[Recorder]:
    """Stand between a client and the server at the URL for the length of a block."""
    record = Recorder()
    host, _, port = url.removeprefix("nats://").rpartition(":")

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, int(port))

        async def forth() -> None:
            while data := await reader.read(65536):
                record.said += data
                to_server.write(data)
            to_server.close()

        async def back() -> None:
            while data := await from_server.read(65536):
                writer.write(data)
            writer.close()

        with contextlib.suppress(ConnectionError):
            await asyncio.gather(forth(), back())

    async with await asyncio.start_server(join, "127.0.0.1", 0) as listening:
        record.url = f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield record
