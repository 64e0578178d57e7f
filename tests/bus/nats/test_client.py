"""What a hostile publisher can do to a subscriber: nothing, and it is counted."""

from __future__ import annotations

import asyncio
from urllib.parse import urlparse

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus import Connection, NatsServer
from bus.nats.client import Transport
from tests.attacker import Attacker
from tests.recorder import recorder
from tests.waiting import eventually

NOT_TEXT = [b"\xff", b"\xc3", b"\xed\xa0\x80"]
ODD_BUT_TEXT = [b"\x0b", b"\x0c", b"\r", b"\x00", b"\x1c", b"\x85".decode("latin-1").encode(), b"\xc2\xa0"]
MALFORMED_HEADERS = [
    b"",
    b"\r\n\r\n",
    b"NATS/1.0",
    b"NATS/1.0\r\n",
    b"NATS/1.0 \xff\r\n\r\n",
    b"NATS/1.0 503",
    b"NATS/1.0\r\n:\r\n\r\n",
    b"NATS/1.0\r\n\xff\xfe: \xff\r\n\r\n",
    b"\xff" * 64,
    b"NATS/1.0 503 " + b"x" * 2000,
]


class Ear:
    """Hears `x.>` and remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bytes]] = []

    def __call__(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        self.heard.append((subject, reply, payload))

    async def still_hears(self, bus: Connection, attacker: Attacker) -> None:
        """Nothing was lost: the connection is the same, and a good message still arrives."""
        attacker.publish(b"x.good", b"fine")
        await eventually(lambda: self.heard and self.heard[-1] == ("x.good", "", b"fine"))
        assert bus.ready
        assert bus.reconnects == 0


@pytest.fixture
async def ear(bus: Connection) -> Ear:
    ear = Ear()
    await bus.listen("x.>", ear)
    await bus.flush()
    return ear


@pytest.mark.parametrize("byte", NOT_TEXT)
async def test_a_subject_that_is_not_text_is_counted_and_dropped(server, bus, ear, byte):
    with Attacker(server.url) as attacker:
        attacker.publish(b"x.a" + byte + b"b", b"hostile")
        await ear.still_hears(bus, attacker)
    assert bus.dropped == 1
    assert len(ear.heard) == 1


@pytest.mark.parametrize("byte", NOT_TEXT)
async def test_a_reply_subject_that_is_not_text_is_counted_and_dropped(server, bus, ear, byte):
    with Attacker(server.url) as attacker:
        attacker.publish(b"x.a", b"hostile", reply=b"r" + byte)
        await ear.still_hears(bus, attacker)
    assert bus.dropped == 1
    assert len(ear.heard) == 1


@pytest.mark.parametrize("odd", ODD_BUT_TEXT)
async def test_a_subject_with_odd_bytes_arrives_as_it_was_sent(server, bus, ear, odd):
    with Attacker(server.url) as attacker:
        attacker.publish(b"x.a" + odd + b"b", b"odd", reply=b"r" + odd)
        await ear.still_hears(bus, attacker)
    assert ear.heard[0] == (f"x.a{odd.decode()}b", f"r{odd.decode()}", b"odd")
    assert bus.dropped == 0


@pytest.mark.parametrize("headers", MALFORMED_HEADERS)
async def test_a_malformed_header_block_stops_nobody(server, bus, ear, headers):
    with Attacker(server.url) as attacker:
        attacker.publish_with_headers(b"x.a", headers, b"payload")
    with Attacker(server.url) as attacker:  # the server may have thrown the first one out
        await ear.still_hears(bus, attacker)


async def test_malformed_headers_on_the_inbox_of_a_question_do_not_answer_it(server, bus):
    asked = asyncio.Event()

    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        with Attacker(server.url) as attacker:
            attacker.publish_with_headers(reply.encode(), b"NATS/1.0 \xff\xff\xff\r\n\r\n", b"forged")
        bus.send(reply, b"true")
        asked.set()

    await bus.listen("question", hear)
    answer = await bus.ask("question", b"", 5.0, valid=lambda data: data == b"true")
    assert asked.is_set()
    assert answer == b"true"


async def test_a_message_as_large_as_the_server_takes_arrives(server, bus, ear):
    with Attacker(server.url) as attacker:
        attacker.publish(b"x." + b"s" * 4000, b"\x00" * 1024 * 1024)
        await ear.still_hears(bus, attacker)
    assert [len(payload) for _, _, payload in ear.heard] == [1024 * 1024, 4]


async def test_a_handler_that_fails_is_counted_and_called_again(server, bus):
    called = []

    def fail(*message: object) -> None:
        called.append(message)
        raise ValueError("a fault of the handler's own")

    await bus.listen("y", fail)
    await bus.flush()
    with Attacker(server.url) as attacker:
        attacker.publish(b"y")
        attacker.publish(b"y")
    await eventually(lambda: len(called) == 2)
    assert bus.dropped == 2
    assert bus.ready


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40).map(lambda name: b"t" + name.translate(None, b" \t\n.")),
            st.binary(max_size=60),
            st.binary(max_size=60),
        ),
        max_size=8,
    )
)
def test_no_message_stops_a_subscriber(server, messages):
    async def attack() -> None:
        async with Connection(server.url) as bus:
            ear = Ear()
            await bus.listen("x.>", ear)
            await bus.flush()
            for subject, payload, headers in messages:
                with Attacker(server.url) as attacker:
                    attacker.publish(b"x." + subject, payload, reply=subject)
                with Attacker(server.url) as attacker:
                    attacker.publish_with_headers(b"x." + subject, headers, payload)
            with Attacker(server.url) as attacker:
                await ear.still_hears(bus, attacker)

    asyncio.run(attack())


async def test_a_flush_proves_what_was_sent_before_it(server):
    async with recorder(server.url) as wire, Connection(wire.url) as bus:
        subscription = await bus.listen("z", Ear())
        await bus.flush()
        assert wire.words[-2:] == [b"SUB", b"PING"]
        await subscription.cancel()
        assert wire.words[-2:] == [b"UNSUB", b"PING"]


async def test_giving_up_a_flush_costs_no_connection(own_server: NatsServer):
    async with Connection(own_server.url) as bus:
        own_server.freeze()
        flushing = asyncio.create_task(bus.flush())
        await asyncio.sleep(0)
        flushing.cancel()
        own_server.thaw()
        await bus.flush()
        await bus.flush()
        assert bus.reconnects == 0


async def test_many_subscriptions_are_written_together(bus):
    """And each is heard, also those after which nothing was flushed."""
    heard = []
    for number in range(500):
        await bus.listen(f"many.{number}", lambda subject, *_: heard.append(subject))
    assert bus._client._flush_queue.qsize() <= 1
    await bus.flush()
    for number in range(500):
        bus.send(f"many.{number}", b"")
    await eventually(lambda: heard == [f"many.{number}" for number in range(500)])


def test_writing_to_a_socket_that_closed_a_moment_ago_is_a_lost_connection_with_uvloop_too():
    """It would be a RuntimeError, on which the library ends its attempts to connect again."""

    async def write() -> None:
        async with await asyncio.start_server(
            lambda reader, writer: writer.close(), "127.0.0.1"
        ) as listening:
            host, port = listening.sockets[0].getsockname()
            transport = Transport()
            await transport.connect(urlparse(f"nats://{host}:{port}"), 1024, 5)
            transport._io_writer.transport.abort()
            await transport.wait_closed()
            transport.write(b"PING\r\n")

    with pytest.raises(ConnectionResetError):
        uvloop.run(write())
