"""Answering with bounded queues."""

from __future__ import annotations

import asyncio

from bus import Connection, NatsServer
from bus.services.responder import Limits, responding_by_subject


async def test_one_who_floods_keeps_nobody_else_from_being_answered():
    open_, begun = asyncio.Event(), asyncio.Event()

    async def answer(subject: str, payload: bytes) -> bytes:
        begun.set()
        await open_.wait()
        return subject.encode()

    limits = Limits(at_once=1, waiting=5, each=2)
    async with (
        NatsServer() as server,
        Connection(server.url) as bus,
        Connection(server.url) as service,
        responding_by_subject(service, ["turn.*"], answer, limits, busy=b"busy"),
    ):
        await service.flush()
        flood = [asyncio.create_task(bus.ask("turn.mallory", b"", 20.0)) for _ in range(20)]
        await begun.wait()
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        ann = asyncio.create_task(bus.ask("turn.ann", b"", 20.0))
        await bus.flush()
        open_.set()
        assert await ann == b"turn.ann"
        assert sorted(await asyncio.gather(*flood)) == [b"busy"] * 18 + [b"turn.mallory"] * 2
