"""Streams taken out of JetStream whole, and put back whole: with their configuration, numbers, times and consumers.

The server sends a snapshot in chunks, each of which is acknowledged, and takes one back in the same way. It puts a
stream only where there is none of its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass

import msgspec

from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.jetstream_api import STREAM, Answer, Content, StreamMissing, read_answer, request

CHUNK_BYTES = 256 * 1024
SECONDS = 30.0
"""How long the server may take for a chunk, or to begin."""
PREFIXES = ("authfabric-", "KV_authfabric-")
"""Prefixes of the names of the fabric's own streams."""


class _Names(Answer, frozen=True):
    total: int = 0
    streams: list[str] | None = None


class _Config(msgspec.Struct, frozen=True):
    storage: str = "file"


class StreamHead(msgspec.Struct, frozen=True):
    """How a stream is configured, and what is in it, as the server says it: it wants the same back."""

    config: msgspec.Raw
    state: msgspec.Raw

    @property
    def messages(self) -> int:
        return self._state.messages

    @property
    def last(self) -> int:
        """The number of its newest message."""
        return self._state.last_seq

    @property
    def _state(self) -> Content:
        return msgspec.json.decode(self.state, type=Content)


class _Told(Answer, frozen=True):
    config: msgspec.Raw = msgspec.Raw(b"{}")
    state: msgspec.Raw = msgspec.Raw(b"{}")
    deliver_subject: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stream as it was at one moment: its head, and its content, to be read once."""

    head: StreamHead
    chunks: AsyncGenerator[bytes]


async def stream_names(connection: Connection) -> list[str]:
    """The fabric's own streams that survive their servers. Raises StoreUnavailable, as all of these do."""
    found: list[str] = []
    while True:
        page = await request(connection, f"{STREAM}.NAMES", _Names, {"offset": len(found)}, SECONDS)
        found += page.streams or []
        if not page.streams or len(found) >= page.total:
            break
    own = sorted(name for name in found if name.startswith(PREFIXES))
    heads = {name: await stream_head(connection, name) for name in own}
    return [name for name, head in heads.items() if head is not None and _storage(head) == "file"]


async def stream_head(connection: Connection, name: str) -> StreamHead | None:
    """How a stream is now; None if there is none."""
    try:
        told = await request(connection, f"{STREAM}.INFO.{name}", _Told, seconds=SECONDS)
    except StreamMissing:
        return None
    return StreamHead(told.config, told.state)


async def take_snapshot(connection: Connection, name: str) -> Snapshot:
    """A stream as it is now. Its chunks must be read to the end, or given up by `aclose`."""
    arrived: asyncio.Queue[tuple[str, bytes, bytes]] = asyncio.Queue()
    place = f"{connection.own_place}.snapshot.{name}"
    subscription = await connection.listen(place, lambda s, r, data, h: arrived.put_nowait((r, data, h)))
    wanted = {"deliver_subject": place, "chunk_size": CHUNK_BYTES, "jsck": False}
    try:
        told = await request(connection, f"{STREAM}.SNAPSHOT.{name}", _Told, wanted, SECONDS)
    except BaseException:
        await subscription.cancel()
        raise

    async def chunks() -> AsyncGenerator[bytes]:
        try:
            while True:
                reply, data, headers = await _next(arrived)
                if headers and b" 4" in headers.partition(b"\r\n")[0]:
                    raise StoreUnavailable(f"the snapshot of `{name}` was given up by the server")
                if not data:
                    return
                yield data
                if reply:
                    connection.send(reply, b"")
        finally:
            await subscription.cancel()

    return Snapshot(StreamHead(told.config, told.state), chunks())


async def put_snapshot(
    connection: Connection, name: str, head: StreamHead, chunks: AsyncIterable[bytes]
) -> None:
    """Make a stream from a snapshot. There must be none of its name."""
    told = await request(connection, f"{STREAM}.RESTORE.{name}", _Told, head, SECONDS)
    async for chunk in chunks:
        await _send(connection, told.deliver_subject, chunk)
    read_answer(await _send(connection, told.deliver_subject, b""), Answer)


async def delete_empty(connection: Connection, name: str) -> None:
    """Take out a stream that nobody has written to, so that another can stand in its place."""
    with contextlib.suppress(StreamMissing):
        await request(connection, f"{STREAM}.DELETE.{name}", Answer, seconds=SECONDS)


async def _send(connection: Connection, place: str, chunk: bytes) -> bytes:
    try:
        return await connection.ask(place, chunk, SECONDS)
    except BusError as error:
        raise StoreUnavailable(str(error)) from None


async def _next(arrived: asyncio.Queue[tuple[str, bytes, bytes]]) -> tuple[str, bytes, bytes]:
    try:
        async with asyncio.timeout(SECONDS):
            return await arrived.get()
    except TimeoutError:
        raise StoreUnavailable(f"no chunk of the snapshot within {SECONDS:g} s") from None


def _storage(head: StreamHead) -> str:
    return msgspec.json.decode(head.config, type=_Config).storage
