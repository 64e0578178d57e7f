"""On a server that refuses strangers, brokers read and publish the types for which they are vouched, and no others."""

from __future__ import annotations

import asyncio
from time import time
from uuid import uuid4

import pytest

from authz import Identity
from bus.errors import BusError
from bus.nats import own_carried_mark
from bus.stores.consumer_keeper import AskingKeeper, CarryRequest, consumer_names, reader_names
from bus.stores.parcel_consumer import Consumer
from bus.stores.parcel_publisher import ParcelPublisher
from bus.stores.parcel_stream import put_record, read_records
from bus.stores.record_store import writer
from bus.wire import subjects
from pubsub_core.carriage import carrier_rights_service
from pubsub_core.carriage.carrier_rights import carrier_record
from pubsub_core.carriage.records import word_record
from pubsub_core.trust.vouches import ALL, vouch, withdraw
from tests.bus.stores.test_parcel_stream import Reader
from tests.pdp.access.attempts import may_publish
from tests.secured import secured
from tests.waiting import PATIENCE, eventually

BROKER = "network: shop\naction: connect|carry"
OWNER = Identity.generate()
MINE, OTHERS = (subjects.TypePlace(subjects.FILE, subjects.place(OWNER.public), word * 32) for word in "ab")


class Host:
    """A broker's connection, with the key that vouches name."""

    def __init__(self, bus) -> None:
        self.bus = bus
        self.key = Identity.generate()
        self.place = writer(bus)
        self.keeper = AskingKeeper(bus, self.place)
        self.reader = Reader()

    async def introduce(self, *words: bytes) -> None:
        """Tell whose types it carries, and be let in to what follows from that."""
        carrier = carrier_record(self.place, [str(OWNER.public)], time(), self.key)
        for record in (carrier, *map(word_record, words)):
            await put_record(self.bus, "shop", *record)
        await self.align()

    async def align(self) -> None:
        rights = (await self.keeper.ask(CarryRequest())).rights
        if await own_carried_mark(self.bus) != rights:
            await self.bus.renew()

    def vouched(self, *types: str) -> bytes:
        return vouch(self.key.public, types or [ALL], time() + 1000, OWNER, time())

    async def make(self, *places: subjects.TypePlace) -> frozenset[str]:
        """By what a consumer selects that was asked to read these types."""
        filters = [subjects.parcel(None, each, "*", "*") for each in places]
        return (
            await self.keeper.put("create", subjects.PARCELS, consumer_names(self.place)[0], filters, None)
        ).filters

    async def publish(self, place: subjects.TypePlace, text: str) -> None:
        done = asyncio.get_running_loop().create_future()
        ParcelPublisher(self.bus).publish(
            subjects.parcel("shop", place), uuid4().hex, text.encode, done.set_result
        )
        await done


@pytest.fixture
async def world(tmp_path):
    async with secured(tmp_path) as (world, _):
        yield world


async def test_a_broker_that_is_not_vouched_for_neither_reads_nor_publishes(world):
    async with world.connect(BROKER) as one, world.connect(BROKER) as two:
        trusted, stranger = Host(one), Host(two)
        await trusted.introduce(trusted.vouched())
        await stranger.introduce()
        assert await may_publish(trusted.bus, subjects.parcel("shop", MINE))
        assert not await may_publish(stranger.bus, subjects.parcel("shop", MINE))
        assert await trusted.make(MINE) == {subjects.parcel(None, MINE, "*", "*")}
        assert not await stranger.make(MINE)
        everything = subjects.parcels(None, subjects.FILE)
        first = consumer_names(stranger.place)[0]
        for filter_ in (everything, everything.replace("*.*.*.*.*", ">"), ">", "", "a.b"):
            info = await stranger.keeper.put("update", subjects.PARCELS, first, [filter_], None)
            assert not info.filters
        again = await stranger.keeper.put(
            "create",
            subjects.PARCELS,
            reader_names(stranger.place)[0],
            [subjects.parcel(None, MINE, "*", "*"), subjects.mark("shop", stranger.place)],
            0,
        )
        assert again.filters == {subjects.mark("shop", stranger.place)}, "nor what was published before"
        for name in (consumer_names(trusted.place)[0], reader_names(trusted.place)[0], "mine"):
            with pytest.raises(BusError, match="for this broker"):
                await stranger.keeper.put("create", subjects.PARCELS, name, [], None)
        with pytest.raises(BusError, match="for this broker"):
            await stranger.keeper.put("create", subjects.BROKERS, first, [], None)
        await trusted.publish(MINE, "for those who are trusted")
        request = b'{"batch": 1, "expires": 300000000}'
        answer = await stranger.bus.ask(f"$JS.API.CONSUMER.MSG.NEXT.{subjects.PARCELS}.{first}", request, 2.0)
        assert answer == b""


async def test_a_broker_reads_and_publishes_exactly_the_types_for_which_it_is_vouched(world):
    async with world.connect(BROKER) as one:
        host = Host(one)
        await host.introduce(host.vouched(MINE.type))
        assert await host.make(MINE, OTHERS) == {subjects.parcel(None, MINE, "*", "*")}
        assert await may_publish(host.bus, subjects.parcel("shop", MINE))
        assert not await may_publish(host.bus, subjects.parcel("shop", OTHERS))
        await host.introduce(host.vouched(MINE.type, OTHERS.type))
        assert await may_publish(host.bus, subjects.parcel("shop", OTHERS))


async def test_a_broker_that_is_distrusted_is_cut_off_from_the_type_at_once(world):
    async with world.connect(BROKER) as one, world.connect(BROKER) as two:
        host, operator = Host(one), Host(two)
        await host.introduce(host.vouched())
        consumer = Consumer(one, host.keeper, subjects.PARCELS, host.place, host.reader)
        reading = asyncio.create_task(consumer.run())
        both = {subjects.parcel(None, each, "*", "*") for each in (MINE, OTHERS)}
        consumer.want(both, 1)
        await eventually(lambda: host.reader.applied == 1)
        await host.publish(MINE, "before")
        await eventually(lambda: host.reader.texts == ["before"])
        reconnects = one.reconnects
        word = withdraw(host.key.public, [MINE.type], time() + 1, OWNER)
        await put_record(two, "shop", *word_record(word))
        await eventually(lambda: one.reconnects > reconnects and one.ready)
        assert not await may_publish(one, subjects.parcel("shop", MINE))
        await eventually(lambda: consumer._applied == {subjects.parcel(None, OTHERS, "*", "*")})
        await host.publish(OTHERS, "after")
        await eventually(lambda: host.reader.texts == ["before", "after"])
        reading.cancel()
        await asyncio.wait([reading])
        assert operator.place not in host.place


async def test_a_broker_that_writes_records_without_end_is_put_out_and_they_are_taken_out(world, monkeypatch):
    monkeypatch.setattr(carrier_rights_service, "MAX_RECORDS", 50)
    async with world.connect(BROKER) as one, world.connect(BROKER) as two:
        await put_record(two, "shop", "word.x", b"of somebody else")
        for number in range(60):
            one.send(subjects.broker_record("shop", writer(one), f"word.{number}"), b"x")
        await eventually(lambda: not one.ready)

        async def kept() -> list[str]:
            return [subject.split(".")[3] async for subject, _ in read_records(two)]

        async with asyncio.timeout(PATIENCE):
            while (await kept()).count(writer(one)) > 50:  # noqa: ASYNC110 - nothing here tells
                await asyncio.sleep(0.05)
        assert writer(two) in await kept()
