from __future__ import annotations

from bus.nats.connection import Connection
from bus.nats.faults import FaultyConnection
from bus.server.nats_server import NatsServer


async def test_what_is_lost_on_purpose_is_not_heard_and_the_rest_is():
    heard = []
    async with (
        NatsServer() as server,
        FaultyConnection(server.url, lambda payload: payload == b"lost") as deaf,
        Connection(server.url) as sender,
    ):
        await deaf.listen("words", lambda subject, reply, payload, headers: heard.append(payload))
        await deaf.flush()
        for word in (b"one", b"lost", b"two"):
            sender.send("words", word)
        await sender.flush()
        await deaf.flush()
    assert heard == [b"one", b"two"]
    assert deaf.lost == 1
