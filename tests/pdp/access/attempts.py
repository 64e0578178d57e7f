"""What somebody may try at the door of a secured bus, and whether it is let."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bus import Connection, NatsServer, NotConnected
from bus.identity.credentials import Credentials
from bus.server.server_config import ServiceKeys
from tests.secured import PDP, Secured

ASK = "af.ask.any.default.alice.=.x.read"


async def refused(world: Secured, credentials: Credentials | None, seconds: float = 4.0) -> str:
    with pytest.raises(NotConnected) as raised:
        async with Connection(world.url, credentials=credentials, connect_seconds=seconds):
            pass
    return str(raised.value)


@contextlib.asynccontextmanager
async def answering(world: Secured, text: str = PDP):
    async with world.connect(text) as pdp:
        await pdp.listen("af.ask.any.default.>", lambda s, reply, data, h: reply and pdp.send(reply, data))
        await pdp.flush()
        yield pdp


async def may_subscribe(bus: Connection, subject: str) -> bool:
    """Whether the server lets it; it says so to the client's error handler only."""
    bus.last_error = ""
    subscription = await bus.listen(subject, lambda *_: None)
    await bus.flush()
    await asyncio.sleep(0)
    with contextlib.suppress(NotConnected):
        await subscription.cancel()
    return "permissions violation" not in bus.last_error.lower()


async def may_publish(bus: Connection, subject: str) -> bool:
    bus.last_error = ""
    bus.send(subject, b"junk")
    await bus.flush()
    await bus.flush()
    return "permissions violation" not in bus.last_error.lower()


@contextlib.asynccontextmanager
async def member(world: Secured):
    keys = ServiceKeys.of(world.service)
    own = Credentials(keys.member, tls=world.tls(keys.member))
    async with Connection(world.url, credentials=own) as bus:
        yield bus


def log_of(server: NatsServer) -> str:
    return (server._folder / "log").read_text()
