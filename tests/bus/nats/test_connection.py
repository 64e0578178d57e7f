"""A connection survives what happens to servers, and says clearly when it cannot."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from time import monotonic

import pytest
import uvloop

from authz import Identity
from bus import Connection, NatsServer, NoResponders, NotConnected, ReplyTimeout, cluster
from bus.errors import BadMessage
from bus.identity.credentials import Credentials, connection_key
from bus.nats.client import GuardedClient
from bus.nats.subscription import Subscription
from tests.attacker import Attacker
from tests.waiting import eventually, is_stopped

Run = Callable[[Coroutine[object, object, None]], None]
on_both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


async def echo(bus: Connection, subject: str = "echo", queue: str = "") -> None:
    """Answer every question on the subject with its own payload."""
    await bus.listen(subject, lambda s, reply, data, h: bus.send(reply, data), queue)
    await bus.flush()


class TestAsk:
    async def test_the_first_valid_answer_is_taken_and_the_others_ignored(self, bus):
        def answer(subject: str, reply: str, data: bytes, headers: bytes) -> None:
            for word in (b"bad", b"worse", b"good", b"better"):
                bus.send(reply, word)

        await bus.listen("ask", answer)
        assert await bus.ask("ask", b"", 5.0, valid=lambda data: data in (b"good", b"better")) == b"good"

    async def test_with_nobody_listening_it_says_so_at_once(self, bus):
        with pytest.raises(NoResponders, match=r"nobody listens on `nobody\.there`") as raised:
            await bus.ask("nobody.there", b"", 60.0)
        assert raised.value.subject == "nobody.there"

    async def test_without_a_valid_answer_it_times_out(self, bus):
        await echo(bus)
        with pytest.raises(ReplyTimeout, match=r"no valid answer on `echo` within 0\.05 s") as raised:
            await bus.ask("echo", b"x", 0.05, valid=lambda data: False)
        assert (raised.value.subject, raised.value.seconds) == ("echo", 0.05)

    async def test_a_check_that_fails_makes_an_answer_invalid_and_nothing_else(self, bus):
        def answer(subject: str, reply: str, data: bytes, headers: bytes) -> None:
            bus.send(reply, b"")
            bus.send(reply, b"7")

        await bus.listen("ask", answer)
        assert await bus.ask("ask", b"", 5.0, valid=lambda data: data[0] == ord("7")) == b"7"

    async def test_it_leaves_nothing_behind(self, bus):
        await echo(bus)
        await bus.ask("echo", b"", 5.0)
        with pytest.raises(NoResponders):
            await bus.ask("nobody", b"", 5.0)
        waiting = asyncio.create_task(bus.ask("echo", b"", 60.0, valid=lambda data: False))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not bus._replies._expected

    async def test_a_cancellation_that_comes_with_the_answer_is_not_lost(self, bus):
        def answered(data: bytes) -> bool:
            asyncio.get_running_loop().call_soon(asking.cancel)
            return True

        await echo(bus)
        asking = asyncio.create_task(bus.ask("echo", b"x", 60.0, valid=answered))
        await asyncio.wait([asking])
        assert asking.cancelled()

    async def test_a_cancellation_that_comes_with_the_connection_is_not_lost(self, own_server):
        async with Connection(own_server.url) as bus:
            await own_server.stop(signal.SIGKILL)
            await eventually(lambda: not bus.ready)
            waiting = asyncio.create_task(bus.wait_ready(60.0))
            bus.on_ready.append(waiting.cancel)
            await own_server.start()
            await asyncio.wait([waiting])
            assert waiting.cancelled()


class TestSend:
    async def test_what_the_server_would_not_take_is_refused_before_it_costs_the_connection(self, bus):
        with pytest.raises(BadMessage, match="`payload` has 1048577 bytes; the server takes 1048576"):
            bus.send("x", b"\x00" * (1024 * 1024 + 1))
        await bus.flush()
        assert bus.reconnects == 0

    async def test_after_closing_it_says_not_connected(self, server):
        async with Connection(server.url) as bus:
            pass
        with pytest.raises(NotConnected):
            bus.send("x", b"")
        with pytest.raises(NotConnected):
            await bus.flush()
        with pytest.raises(NotConnected):
            await bus.listen("x", lambda *message: None)


class TestSubscription:
    async def test_a_dropped_interest_hears_no_more(self, bus):
        heard = []
        subscription = await bus.listen("x", lambda *message: heard.append(message))
        bus.send("x", b"1")
        await subscription.cancel()
        assert len(heard) == 1
        bus.send("x", b"2")
        await bus.flush()
        assert len(heard) == 1

    async def test_what_was_sent_before_it_was_dropped_is_still_handled(self, server, bus):
        heard = []
        subscription = await bus.listen("x", lambda *message: heard.append(message))
        await bus.flush()
        with Attacker(server.url) as other:
            for _ in range(100):
                other.publish(b"x")
        await subscription.cancel()
        assert len(heard) == 100

    async def test_many_can_be_dropped_at_once(self, bus):
        heard = []
        subscriptions = [await bus.listen(f"x.{n}", lambda *m: heard.append(m)) for n in range(50)]
        await bus.cancel(subscriptions)
        for n in range(50):
            bus.send(f"x.{n}", b"")
        await bus.flush()
        assert not heard

    async def test_of_a_queue_one_member_hears(self, server, bus):
        async with Connection(server.url) as other:
            heard = []
            for member in (bus, other):
                await member.listen("x", lambda *message: heard.append(message), "q")
                await member.flush()
            for _ in range(20):
                bus.send("x", b"")
            await bus.flush()
            await other.flush()
            assert len(heard) == 20


class TestServerDies:
    @on_both_loops
    def test_a_killed_server_that_returns_on_its_port_is_found_again(self, run: Run):
        async def body() -> None:
            async with NatsServer() as server, Connection(server.url) as bus:
                await echo(bus)
                came_back = asyncio.Event()
                bus.on_ready.append(came_back.set)
                await server.stop(signal.SIGKILL)
                await eventually(lambda: not bus.ready)
                with pytest.raises(NotConnected, match="not connected to `nats://127"):
                    bus.send("echo", b"")
                await server.start()
                assert await bus.wait_ready(10.0)
                assert came_back.is_set()
                assert await bus.ask("echo", b"again", 5.0) == b"again"
                assert bus.reconnects == 1

        run(body())

    @on_both_loops
    def test_a_connection_whose_library_hangs_while_it_reconnects_is_built_anew(self, run: Run, monkeypatch):
        """As it did in handshakes that the server had given up."""
        hung: list[GuardedClient] = []
        greet = GuardedClient._process_connect_init

        async def hang_once(client: GuardedClient) -> None:
            if not hung:
                hung.append(client)
                await asyncio.Event().wait()
            await greet(client)

        async def body() -> None:
            async with NatsServer() as server, Connection(server.url) as bus:
                await echo(bus)
                await server.stop(signal.SIGKILL)
                await eventually(lambda: not bus.ready)
                monkeypatch.setattr(GuardedClient, "_process_connect_init", hang_once)
                await server.start()
                await eventually(lambda: bus.ready)
                assert hung
                assert bus._client is not hung[0]
                assert await bus.ask("echo", b"again", 5.0) == b"again"

        run(body())

    @on_both_loops
    def test_sending_while_the_server_dies_never_raises_anything_but_not_connected(self, run: Run):
        async def body() -> None:
            async with NatsServer() as server, Connection(server.url) as bus:
                dying = asyncio.create_task(server.stop(signal.SIGKILL))
                refused = 0
                while refused < 100:
                    try:
                        bus.send("x", b"\x00" * 1000)
                    except NotConnected:
                        refused += 1
                    await asyncio.sleep(0)
                await dying

        run(body())

    async def test_a_flush_under_way_fails_as_soon_as_the_connection_is_lost(self, own_server):
        async with Connection(own_server.url) as bus:
            own_server.freeze()
            await eventually(lambda: is_stopped(own_server.pid))
            flushing = asyncio.create_task(bus.flush(600))
            await asyncio.sleep(0)
            await own_server.stop(signal.SIGKILL)
            with pytest.raises(NotConnected):
                await flushing

    async def test_waiting_for_a_connection_that_does_not_come_back_ends(self, own_server):
        async with Connection(own_server.url) as bus:
            await own_server.stop(signal.SIGKILL)
            await eventually(lambda: not bus.ready)
            assert await bus.wait_ready(0.05) is False

    @on_both_loops
    def test_a_frozen_server_is_noticed_and_the_other_one_used(self, run: Run):
        """Also when so much waits to be sent that the socket's buffers are full."""

        async def body() -> None:
            async with cluster(2) as (first, second), Connection(first.url) as bus:
                async with Connection(second.url) as other:
                    await echo(other)
                    await echo(bus, "mine")
                    first.freeze()
                    for _ in range(40):
                        bus.send("nobody", b"\x00" * 1024 * 1024)
                    await eventually(lambda: not bus.ready)
                    assert await bus.wait_ready(20.0)
                    assert bus.server == other.server
                    assert await bus.ask("echo", b"over there", 5.0) == b"over there"
                    assert await other.ask("mine", b"over here", 5.0) == b"over here"
                first.thaw()

        run(body())

    @on_both_loops
    def test_closing_does_not_wait_for_a_frozen_server(self, run: Run):
        async def body() -> None:
            async with NatsServer() as server:
                bus = Connection(server.url)
                await bus.__aenter__()
                server.freeze()
                for _ in range(40):
                    bus.send("nobody", b"\x00" * 1024 * 1024)
                async with asyncio.timeout(60):
                    await bus.close()

        run(body())

    async def test_what_was_sent_last_arrives_before_the_connection_closes(self, server, bus):
        heard = []
        await bus.listen("x", lambda *message: heard.append(message))
        await bus.flush()
        async with Connection(server.url) as other:
            for _ in range(500):
                other.send("x", b"\x00" * 10_000)
        await eventually(lambda: len(heard) == 500)


class TestClosedByTheServer:
    async def test_a_client_the_server_closes_is_built_again_with_its_subscriptions(self, server, bus):
        """The library gives up for good on an error such as this one."""
        await echo(bus)
        client = bus._client
        client._transport.write(b"NONSENSE\r\n")
        await eventually(lambda: bus._client is not client)
        assert await bus.wait_ready(10.0)
        assert await bus.ask("echo", b"still", 5.0) == b"still"
        assert bus.reconnects == 1

    async def test_it_is_built_again_although_the_library_stumbles(self, server, bus, monkeypatch):
        await echo(bus)
        client, begin, stumbled = bus._client, Subscription.begin, list[str]()

        async def stumble_once(self: Subscription, client: GuardedClient) -> int:
            if not stumbled:
                stumbled.append(self.subject)
                raise RuntimeError("the handler is closed")
            return await begin(self, client)

        monkeypatch.setattr(Subscription, "begin", stumble_once)
        client._transport.write(b"NONSENSE\r\n")
        await eventually(lambda: stumbled and bus.ready)
        assert await bus.ask("echo", b"still", 5.0) == b"still"

    async def test_it_hears_everything_once_whatever_was_subscribed_meanwhile(self, server, bus):
        heard = []
        client = bus._client
        client._transport.write(b"NONSENSE\r\n")
        await eventually(lambda: bus._client is not client)
        await bus.listen("x", lambda *message: heard.append(message))
        assert await bus.wait_ready(10.0)
        bus.send("x", b"")
        await bus.flush()
        assert len(heard) == 1

    async def test_the_count_of_dropped_messages_goes_on(self, server, bus):
        await bus.listen("x.*", lambda *message: None)
        await bus.flush()
        with Attacker(server.url) as attacker:
            attacker.publish(b"x.\xff")
        await eventually(lambda: bus.dropped == 1)
        client = bus._client
        client._transport.write(b"NONSENSE\r\n")
        await eventually(lambda: bus._client is not client)
        assert bus.dropped == 1

    async def test_closing_while_it_is_built_again_ends(self, own_server):
        async with Connection(own_server.url) as bus:
            client = bus._client
            own_server.freeze()
            await client.close()
            await eventually(lambda: bus._client is not client)
        assert bus._client.is_closed
        own_server.thaw()


class TestIdentity:
    @staticmethod
    def only(identity: Identity) -> NatsServer:
        return NatsServer(
            extra=f"authorization {{ users: [ {{ nkey: {connection_key(identity).public} }} ] }}\n"
        )

    async def test_a_server_that_knows_the_key_accepts_it(self):
        identity = Identity.generate()
        async with (
            self.only(identity) as server,
            Connection(server.url, credentials=Credentials(identity)) as bus,
        ):
            await echo(bus)
            assert await bus.ask("echo", b"me", 5.0) == b"me"

    @pytest.mark.parametrize("identity", [None, Identity.generate()], ids=["nobody", "stranger"])
    async def test_a_stranger_is_refused_quickly_and_clearly(self, identity):
        async with self.only(Identity.generate()) as server:
            start = monotonic()
            with pytest.raises(NotConnected, match=r"Authorization Violation$") as raised:
                async with Connection(
                    server.url, credentials=identity and Credentials(identity), connect_seconds=60.0
                ):
                    pass
            assert raised.value.url == server.url
            assert monotonic() - start < 30.0  # not the minutes for which the library would try

    async def test_it_proves_its_key_again_when_the_server_returns(self):
        identity = Identity.generate()
        async with (
            self.only(identity) as server,
            Connection(server.url, credentials=Credentials(identity)) as bus,
        ):
            await echo(bus)
            await server.stop(signal.SIGKILL)
            await eventually(lambda: not bus.ready)
            await server.start()
            assert await bus.wait_ready(10.0)
            assert await bus.ask("echo", b"me", 5.0) == b"me"
