"""Whole messages over TCP, each after its length: for what does not go over NATS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import cast

_LENGTH = Struct("!I")


class FrameLink(asyncio.Protocol):
    """One end of a connection. `take` is given each message that arrives."""

    def __init__(self, take: Callable[[FrameLink, bytes], None], ended: Callable[[FrameLink], None]) -> None:
        self._take = take
        self._ended = ended
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            self._take(self, message)

    def send(self, message: bytes) -> None:
        """Send a message; to who is gone nothing is sent."""
        if self._transport is not None:
            self._transport.write(_LENGTH.pack(len(message)) + message)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def nobody(_: FrameLink) -> None:
    """It need not be known when a connection ends."""


async def dial(
    host: str,
    port: int,
    take: Callable[[FrameLink, bytes], None],
    ended: Callable[[FrameLink], None] = nobody,
) -> FrameLink:
    """Connect. Raises OSError."""
    _, link = await asyncio.get_running_loop().create_connection(lambda: FrameLink(take, ended), host, port)
    return link


async def answer_calls(
    host: str, take: Callable[[FrameLink, bytes], None], ended: Callable[[FrameLink], None] = nobody
) -> asyncio.Server:
    """Listen on a free port of this address."""
    return await asyncio.get_running_loop().create_server(lambda: FrameLink(take, ended), host, 0)


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port
