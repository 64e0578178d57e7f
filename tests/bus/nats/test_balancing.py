"""A server that joins a cluster takes its share of the clients, and nothing is lost or doubled on the way."""

from __future__ import annotations

import asyncio
import contextlib
import signal

import pytest

from bus import Connection, NatsServer, cluster
from bus.nats.balancing import Balancer
from tests.waiting import PATIENCE, eventually

CLIENTS = 24


def at(clients: list[Connection], server: NatsServer) -> int:
    """How many are connected to a server."""
    return sum(client.ready and server.url.endswith(client.server) for client in clients)


async def test_a_server_that_comes_back_takes_its_share_and_nothing_is_lost_or_doubled(monkeypatch):
    monkeypatch.setattr("bus.nats.balancing.SPREAD_SECONDS", 1.0)
    async with contextlib.AsyncExitStack() as stack:
        first, second = await stack.enter_async_context(cluster(2))
        clients = [Connection(f"{first.url},{second.url}") for _ in range(CLIENTS)]
        await asyncio.gather(*map(stack.enter_async_context, clients))
        heard = [list[bytes]() for _ in clients]
        for client, messages in zip(clients, heard, strict=True):
            await client.listen("news", lambda s, r, data, h, messages=messages: messages.append(data))
            await client.flush()
        await first.stop(signal.SIGKILL)
        await eventually(lambda: at(clients, second) == CLIENTS)
        speaker = await stack.enter_async_context(Connection(second.url))
        for messages in heard:
            messages.clear()
        await first.start()
        said = list[bytes]()
        async with asyncio.timeout(PATIENCE):
            while at(clients, first) < CLIENTS // 8:  # half of them are to be expected
                said.append(b"%d" % len(said))
                speaker.send("news", said[-1])
                await asyncio.sleep(0.01)
        await eventually(lambda: all(client._balancer._moving is None for client in clients))
        speaker.send("news", b"end")
        await eventually(lambda: all(each and each[-1] == b"end" for each in heard))
        assert all(each == [*said, b"end"] for each in heard)
        assert 0 < at(clients, second) < CLIENTS


class TestLots:
    """Every client ends at each server with the same probability."""

    @pytest.mark.parametrize(
        ("joined", "count", "share"), [({"a:1"}, 2, 1 / 2), ({"a:1"}, 3, 1 / 3), ({"a:1", "b:1"}, 3, 2 / 3)]
    )
    async def test_the_probability_is_the_share_of_those_that_joined(self, joined, count, share, monkeypatch):
        async def nothing(self: Balancer, to: frozenset[str]) -> None:
            assert to == joined

        monkeypatch.setattr(Balancer, "_move", nothing)
        connection = Connection("nats://a:1,nats://b:1,nats://c:1")
        lots = [Balancer(connection) for _ in range(3000)]
        for lot in lots:
            lot.joined(frozenset(joined), count)
        moving = [lot for lot in lots if lot._moving is not None]
        for lot in moving:
            await lot._moving
        assert abs(len(moving) / len(lots) - share) < 0.1

    @pytest.mark.parametrize("url", ["nats://c:1", "nats://c:1,nats://d:1"])
    async def test_nobody_goes_to_a_server_that_its_url_does_not_name(self, url):
        balancer = Balancer(Connection(url))
        balancer.joined(frozenset({"a:1"}), 1)
        assert balancer._moving is None

    async def test_nobody_goes_where_it_is_not_to_be(self):
        balancer = Balancer(Connection("nats://a:1,nats://b:1", avoid=lambda server: server == "a:1"))
        balancer.joined(frozenset({"a:1"}), 1)
        assert balancer._moving is None
