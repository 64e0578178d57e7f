"""A connection that goes over to another server of a cluster hears everything, and once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from authfabric.chaos.testbed.proxy import Link
from bus import Connection, NatsServer
from bus.nats.handover import TWIN_SECONDS, Twins
from bus.nats.subscription import Subscription
from bus.server.nats_server import free_ports
from tests.waiting import eventually

LATE = 0.1
"""Seconds by which what two of the servers tell each other comes later than what they tell the third."""


@contextlib.asynccontextmanager
async def uneven() -> AsyncIterator[list[NatsServer]]:
    """A cluster of three, in which the second and the third are far from each other and near to the first."""
    ports = free_ports(3)
    links = [Link("127.0.0.1", port) for port in ports]
    async with contextlib.AsyncExitStack() as stack:
        for each in links:
            await each.start()
            stack.callback(each.stop)
            each.delay = LATE
        seen = [ports[0], links[1].port, links[2].port]
        servers = []
        for number, routes in enumerate([[], [seen[0]], [seen[0], seen[1]]]):
            found = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
            extra = (
                f'cluster {{ name: uneven, listen: "127.0.0.1:{ports[number]}", '
                f'advertise: "127.0.0.1:{seen[number]}", routes: [{found}] }}\n'
            )
            servers.append(await stack.enter_async_context(NatsServer(name=f"node{number}", extra=extra)))
        async with Connection(servers[1].url) as second, Connection(servers[2].url) as third:
            for here, there in ((second, third), (third, second)):
                met = asyncio.Event()
                await here.listen("meet", lambda *_, met=met: met.set())
                while not met.is_set():
                    there.send("meet", b"")
                    await asyncio.sleep(0.02)
        yield servers


@pytest.mark.parametrize("queue", ["", "some"])
async def test_what_is_said_at_a_third_server_meanwhile_is_heard_once(queue):
    async with uneven() as (first, second, third), Connection(first.url) as ear, Connection(third.url) as far:
        heard = Counter[int]()
        await ear.listen("news", lambda s, r, data, h: heard.update([int(data)]), queue)
        await ear.flush()
        while not heard:
            far.send("news", b"-1")
            await asyncio.sleep(0.02)
        ear.url = f"{first.url},{second.url}"
        moving, said = asyncio.create_task(ear.move()), 0
        while not moving.done():
            far.send("news", b"%d" % said)
            said += 1
            await asyncio.sleep(0.002)
        await moving
        assert second.url.endswith(ear.server)
        far.send("news", b"%d" % said)
        await eventually(lambda: said in heard)
        del heard[-1]
        assert heard == Counter(range(said + 1))


def test_equal_messages_are_one_if_each_connection_hears_one_and_two_if_one_hears_both():
    twins, message = Twins(), (Subscription.__new__(Subscription), "s", "", b"data", b"")

    def new(fresh: bool, now: float) -> bool:
        return twins.is_new(message, fresh=fresh, now=now)

    assert new(False, 0.0)
    assert new(False, 0.1)
    assert not new(True, 0.2)
    assert not new(True, 0.3)
    assert new(True, 0.4)
    assert not new(False, 0.5)
    assert new(False, 1.0)
    assert new(True, 1.1 + TWIN_SECONDS)
    assert len(twins._single) == len(twins._order) == 1
