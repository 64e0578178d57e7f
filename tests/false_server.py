"""A server that is none: it has whoever connects sign a nonce of its own choice, and keeps what it is sent."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from authz import Identity
from bus import Connection, NotConnected
from bus.identity.credentials import Credentials


@dataclass(frozen=True)
class Shown:
    """What a client sent to be let in."""

    key: str
    signature: bytes
    token: str


@contextlib.asynccontextmanager
async def false_server(nonce: str) -> AsyncIterator[tuple[str, asyncio.Future[Shown]]]:
    """Its address, and what the first client sends."""
    shown: asyncio.Future[Shown] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "N", "version": "2.11.0", "headers": True, "max_payload": 1024, "nonce": nonce}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        sent = json.loads((await reader.readline()).partition(b" ")[2])
        if not shown.done():
            shown.set_result(Shown(sent["nkey"], base64.b64decode(sent["sig"]), sent.get("auth_token", "")))
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", shown


async def lured(identity: Identity, nonce: str, chain: bytes = b"") -> Shown:
    """What a false server has of somebody who connects to it once."""
    async with false_server(nonce) as (url, shown):
        with contextlib.suppress(NotConnected):
            async with Connection(url, credentials=Credentials(identity, chain), connect_seconds=5.0):
                pass
        return await shown
