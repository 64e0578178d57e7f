"""The stream of parcels, on a real server: what is published counts once, and readers get all of it, in order, once."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from functools import partial
from itertools import count
from types import SimpleNamespace
from uuid import uuid4

import pytest

from bus import Connection, NatsServer
from bus.errors import StoreUnavailable
from bus.server import cluster
from bus.stores import parcel_publisher
from bus.stores.consumer_keeper import DirectKeeper
from bus.stores.parcel_consumer import Consumer
from bus.stores.parcel_delivery import Arrived
from bus.stores.parcel_publisher import Acknowledgement, ParcelPublisher
from bus.stores.parcel_stream import STORAGE, open_carriage
from bus.wire import subjects
from tests.waiting import PATIENCE, eventually, once_it_works


def place(type_: str) -> subjects.TypePlace:
    return subjects.TypePlace(subjects.FILE, "OWNER", type_)


def all_of(type_: str) -> str:
    return subjects.parcel(None, place(type_), "*", "*")


class Reader:
    """Takes what it is given, unless it is full."""

    def __init__(self) -> None:
        self.read: list[Arrived] = []
        self.lost: list[int] = []
        self.applied = 0
        self.full = False

    def arrive(self, arrived: Arrived) -> bool:
        if self.full:
            return False
        self.read.append(arrived)
        return True

    def lose(self, count: int) -> None:
        self.lost.append(count)

    def apply(self, version: int) -> None:
        self.applied = version

    @property
    def texts(self) -> list[str]:
        return [each.data.decode() for each in self.read]


class Scene:
    """A stream, and whoever publishes to it."""

    def __init__(self, bus: Connection, url: str) -> None:
        self.bus = bus
        self.url = url
        self._publisher = ParcelPublisher(bus)
        self._version = 0

    async def publish(self, type_: str, *texts: str, route: str = "") -> None:
        for text in texts:
            assert not await self.put(type_, text, uuid4().hex, route)

    async def put(self, type_: str, text: str, id_: str, route: str = "") -> bool:
        """Publish something under an id; whether the stream had it before."""
        done = asyncio.get_running_loop().create_future()
        subject = subjects.parcel("d", place(type_), *(("1", route) if route else ()))
        self._publisher.publish(subject, id_, text.encode, done.set_result)
        return await done is Acknowledgement.KNOWN

    @contextlib.asynccontextmanager
    async def reading(self, *types: str, owner: str = "O"):
        async with Connection(self.url) as bus:
            reader = Reader()
            consumer = Consumer(bus, DirectKeeper(bus), subjects.PARCELS, owner, reader)
            task = asyncio.create_task(consumer.run())
            try:
                await self.want(consumer, reader, *types)
                yield reader, consumer, bus
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def want(self, consumer: Consumer, reader: Reader, *types: str) -> None:
        self._version += 1
        consumer.want({all_of(each) for each in types}, self._version)
        await eventually(lambda: reader.applied == self._version)


@pytest.fixture
async def scene():
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        await open_carriage(bus)
        yield Scene(bus, server.url)


async def test_what_is_published_again_under_its_id_is_known_and_kept_once(scene):
    async with scene.reading("t") as (reader, _, _):
        assert not await scene.put("t", "a", "1")
        assert await scene.put("t", "a", "1")
        assert not await scene.put("t", "b", "2")
        await eventually(lambda: len(reader.read) == 2)
    assert reader.texts == ["a", "b"]
    assert [each.id for each in reader.read] == ["1", "2"]


async def test_a_reader_gets_what_it_wants_from_when_it_wants_it(scene):
    async with scene.reading("t") as (reader, consumer, _):
        await scene.publish("other", "before")
        await scene.publish("t", "1")
        await scene.want(consumer, reader, "t", "other")
        await scene.publish("other", "after")
        await scene.publish("t", "2")
        await eventually(lambda: len(reader.read) == 3)
        await scene.want(consumer, reader, "t")
        await scene.publish("other", "meanwhile")
        await scene.want(consumer, reader, "t", "other")
        await scene.publish("other", "again")
        await eventually(lambda: len(reader.read) == 4)
    assert reader.texts == ["1", "after", "2", "again"]


async def test_a_reader_that_is_behind_is_given_nothing_of_what_it_did_not_want(scene):
    """The server has more for it at the moment, so its place in the stream cannot be moved."""
    async with scene.reading("t") as (reader, consumer, _):
        reader.full = True
        await scene.publish("t", *map(str, range(1000)))
        await scene.publish("other", "before")
        await scene.want(consumer, reader, "t", "other")
        await scene.publish("other", "after")
        reader.full = False
        consumer.go_on()
        await eventually(lambda: len(reader.read) >= 1001)
    assert reader.texts == [*map(str, range(1000)), "after"]


async def test_whoever_starts_again_goes_on_after_what_was_acknowledged(scene):
    async with scene.reading("t") as (reader, consumer, _):
        await scene.publish("t", "1", "2", "3")
        await eventually(lambda: len(reader.read) == 3)
        consumer.acknowledge(reader.read[1].number)
    await scene.publish("t", "4")
    async with scene.reading("t") as (reader, consumer, _):
        await scene.publish("t", "5")
        await eventually(lambda: len(reader.read) == 3)
        assert all_of("t") in consumer.before
    assert reader.texts == ["3", "4", "5"]


async def test_whoever_starts_again_before_anything_came_misses_nothing(scene):
    async with scene.reading("t"):
        pass
    await scene.publish("t", "1")
    async with scene.reading("t") as (reader, _, _):
        await eventually(lambda: reader.read)
    assert reader.texts == ["1"]


def on(type_: str, route: str) -> str:
    return subjects.parcel(None, place(type_), "1", route)


async def test_a_reader_that_selects_more_or_less_of_a_type_misses_nothing_of_what_it_wanted_all_the_time(
    scene,
):
    async with scene.reading() as (reader, consumer, _):
        for number, wanted in enumerate([{on("t", "a")}, {all_of("t")}, {on("t", "a"), on("t", "b")}], 1):
            reader.full = True
            await scene.publish("t", f"a{number}", route="a")
            await scene.publish("t", f"b{number}", route="b")
            await scene.publish("t", f"c{number}", route="c")
            consumer.want(wanted, 10 + number)
            await eventually(lambda number=number: reader.applied == 10 + number)
            reader.full = False
            consumer.go_on()
        await scene.publish("t", "a4", route="a")
        await scene.publish("t", "b4", route="b")
        await eventually(lambda: "b4" in reader.texts)
    assert reader.texts == ["a2", "a3", "b3", "c3", "a4", "b4"]


async def test_whoever_starts_again_and_selects_by_other_routes_gets_what_came_meanwhile(scene):
    async with scene.reading() as (reader, consumer, _):
        consumer.want({on("t", "a")}, 10)
        await eventually(lambda: reader.applied == 10)
        await scene.publish("t", "1", route="a")
        await eventually(lambda: reader.texts == ["1"])
        consumer.acknowledge(reader.read[0].number)
    await scene.publish("t", "2", route="z")
    async with scene.reading("t") as (reader, _, _):
        await eventually(lambda: reader.texts == ["2"])


async def test_two_readers_get_all_of_it_each(scene):
    async with scene.reading("t") as (one, _, _), scene.reading("t", owner="P") as (two, _, _):
        await scene.publish("t", "1", "2")
        await eventually(lambda: len(one.read) == len(two.read) == 2)
    assert one.texts == two.texts == ["1", "2"]


async def test_nothing_is_lost_doubled_or_out_of_order_when_connections_break(scene):
    count = 600
    async with scene.reading("t") as (reader, consumer, bus):
        for number in range(count):
            await scene.publish("t", str(number))
            if number % 100 == 50:
                bus._client._abort()
                await bus.wait_ready(10.0)
            if reader.read:
                consumer.acknowledge(reader.read[-1].number)
        await eventually(lambda: len(reader.read) >= count)
    assert reader.texts == [str(number) for number in range(count)]
    assert not reader.lost


async def test_what_the_stream_has_discarded_unread_is_told(scene):
    async with scene.reading("t") as (reader, consumer, _):
        await scene.publish("t", "1")
        await eventually(lambda: reader.read)
        consumer.acknowledge(reader.read[0].number)
    await scene.publish("t", "2", "3", "4")
    streams = scene.bus.jetstream()
    config = (await streams.stream_info(subjects.PARCELS)).config
    config.max_msgs = 1
    await streams.update_stream(config)
    async with scene.reading("t") as (reader, _, _):
        await eventually(lambda: reader.read)
    assert reader.lost == [2]
    assert reader.texts == ["4"]


async def test_a_stream_that_was_replaced_is_a_loss_and_is_read_on(scene):
    async with scene.reading("t") as (reader, consumer, _):
        await scene.publish("t", "1", "2")
        await eventually(lambda: len(reader.read) == 2)
        consumer.acknowledge(reader.read[1].number)
        await scene.bus.jetstream().delete_stream(subjects.PARCELS)
        await open_carriage(scene.bus)
        consumer._break()
        await eventually(lambda: reader.lost)
        await eventually(lambda: not consumer._broken)
        await scene.publish("t", "3")
        await eventually(lambda: len(reader.read) == 3)
    assert reader.texts == ["1", "2", "3"]


class Deaf:
    """A connection to a server whose first answers are lost."""

    ready = True

    def __init__(self, lost: int) -> None:
        self._lost = lost
        self._replies = count()
        self._takers: dict[str, object] = {}
        self.sent: list[bytes] = []

    def expect(self, take) -> str:
        reply = f"reply{next(self._replies)}"
        self._takers[reply] = take
        return reply

    def forget(self, reply: str) -> None:
        del self._takers[reply]

    def send(self, subject: str, data: bytes, reply: str, headers: bytes) -> None:
        self.sent.append(headers)
        if len(self.sent) > self._lost:
            answer = b'{"stream": "EVENTS", "seq": 1, "duplicate": true}'
            asyncio.get_running_loop().call_soon(self._takers[reply], answer, False)


async def test_what_is_not_answered_is_published_again_under_its_id_until_it_is(monkeypatch):
    monkeypatch.setattr(parcel_publisher, "FIRST_ACK_SECONDS", 0.001)
    deaf, done = Deaf(lost=3), asyncio.get_running_loop().create_future()
    publisher = ParcelPublisher(deaf)
    publisher.publish(subjects.parcel("d", place("t")), "me.7", lambda: b"x", done.set_result)
    assert await asyncio.wait_for(done, PATIENCE) is Acknowledgement.DOUBTFUL, (
        "by an earlier attempt, or another's"
    )
    assert len(deaf.sent) == 4
    assert len(set(deaf.sent)) == 1


async def test_in_a_cluster_streams_are_as_large_as_the_disks_of_its_servers_allow(monkeypatch):
    small = SimpleNamespace(total=4 * 1024**3)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: small)
    async with cluster(3, jetstream=True) as nodes, Connection(nodes[0].url) as bus:
        await once_it_works(partial(open_carriage, bus), StoreUnavailable)  # there is a leader at some time
        made = (await bus.jetstream().stream_info(subjects.parcel_stream(subjects.FILE))).config
        assert made.num_replicas == 3
        assert made.max_bytes == STORAGE[0].max_bytes // 4
