"""Where no connection can be made, what is wrong is said at once."""

from __future__ import annotations

import asyncio
import signal

import pytest

from bus import Connection, NotConnected
from bus.nats.client import GuardedClient
from bus.runtime.process import signal_process
from bus.server.nats_server import free_ports
from bus.wire.address import URL_VARIABLE, configured_url


class TestCannotConnect:
    async def test_where_no_server_is(self):
        (port,) = free_ports(1)
        with pytest.raises(
            NotConnected, match=f"not connected to `nats://127.0.0.1:{port}`: connection refused"
        ):
            async with Connection(f"nats://127.0.0.1:{port}", connect_seconds=0.3):
                pass

    @pytest.mark.parametrize("url", ["nats://", "nats://host:notaport", "nats://host:99999", "http://host:1"])
    async def test_where_the_url_is_none(self, url):
        with pytest.raises(NotConnected, match=r"no address of a NATS server: write nats://HOST:PORT$"):
            async with Connection(url, connect_seconds=0.3):
                pass

    async def test_where_the_server_is_frozen(self, own_server):
        own_server.freeze()
        with pytest.raises(NotConnected, match="no answer in time"):
            async with Connection(own_server.url, connect_seconds=0.3):
                pass
        own_server.thaw()

    async def test_a_password_in_the_url_is_never_shown(self):
        (port,) = free_ports(1)
        url = f"nats://user:secret@127.0.0.1:{port},nats://token@127.0.0.1:{port}"
        with pytest.raises(NotConnected) as raised:
            async with Connection(url, connect_seconds=0.3):
                pass
        assert "secret" not in str(raised.value)
        assert "token" not in str(raised.value)

    async def test_a_second_server_is_used_if_the_first_is_away(self, server):
        (port,) = free_ports(1)
        async with Connection(f"nats://127.0.0.1:{port}, {server.url}") as bus:
            assert server.url.endswith(bus.server)

    async def test_where_a_cancellation_is_swallowed_on_the_way(self, monkeypatch):
        """As Python 3.11 does if what is waited for ends in the same moment; the library then goes on trying."""
        cancelled = []

        async def connect(client: GuardedClient, servers: object, **options: object) -> None:
            while len(cancelled) < 3:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(client)
            raise asyncio.CancelledError

        monkeypatch.setattr(GuardedClient, "connect", connect)
        with pytest.raises(NotConnected):
            async with Connection("nats://127.0.0.1:1", connect_seconds=0.05):
                pass

    async def test_nothing_is_left_running(self):
        (port,) = free_ports(1)
        before = asyncio.all_tasks()
        with pytest.raises(NotConnected):
            async with Connection(f"nats://127.0.0.1:{port}", connect_seconds=0.2):
                pass
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


async def test_jetstream_is_found_where_it_is_on(server, jetstream_server):
    async with Connection(server.url) as without, Connection(jetstream_server.url) as with_it:
        assert not await without.has_jetstream()
        assert await with_it.has_jetstream()


def test_the_environment_names_an_external_server(monkeypatch):
    assert configured_url() is None
    monkeypatch.setenv(URL_VARIABLE, "nats://elsewhere:4222")
    assert configured_url() == "nats://elsewhere:4222"
    monkeypatch.setenv(URL_VARIABLE, "")
    assert configured_url() is None


async def test_interest_is_dropped_without_an_error_while_the_server_dies(own_server):
    async with Connection(own_server.url) as bus:
        several = [await bus.listen(f"af.test.{n}", lambda *_: None) for n in range(2)]
        await bus.flush()
        signal_process(own_server.pid, signal.SIGKILL)
        await bus.cancel(several)
