"""A link carries bytes both ways, and can be cut whole or one way, slowed and reset."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from authfabric.chaos.testbed.proxy import Link, link


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[tuple[Link, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A link to a server that says everything again, and a connection through it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        async with link(f"nats://127.0.0.1:{port}") as between:
            reader, writer = await asyncio.open_connection("127.0.0.1", between.port)
            yield between, reader, writer
            writer.close()


async def says(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, word: bytes) -> bool:
    """Whether a word comes back within a moment."""
    writer.write(word)
    try:
        return await asyncio.wait_for(reader.readexactly(len(word)), 0.3) == word
    except TimeoutError:
        return False


@pytest.mark.parametrize("way", ["both", "there", "back"])
async def test_what_is_sent_through_a_cut_link_arrives_when_it_is_mended(way: str):
    async with echo() as (between, reader, writer):
        assert await says(reader, writer, b"one")
        {"both": between, "there": between.there, "back": between.back}[way].cut()
        assert not between.is_open
        assert not await says(reader, writer, b"two")
        between.mend()
        assert between.is_open
        assert await reader.readexactly(3) == b"two"
        assert await says(reader, writer, b"six")


async def test_what_is_sent_through_a_slow_link_arrives_late_and_whole():
    async with echo() as (between, reader, writer):
        between.delay, between.there.loss = 0.05, 1.0
        start = asyncio.get_running_loop().time()
        writer.write(b"late")
        assert await reader.readexactly(4) == b"late"
        assert asyncio.get_running_loop().time() - start >= 0.3


async def test_a_reset_breaks_the_connection_and_not_the_link():
    async with echo() as (between, reader, writer):
        assert await says(reader, writer, b"one")
        between.reset()
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
        other = await asyncio.open_connection("127.0.0.1", between.port)
        assert await says(*other, b"two")
        other[1].close()
