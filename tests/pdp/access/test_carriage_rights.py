"""The streams between brokers, on a server that refuses strangers: who publishes, who reads, and by which consumer."""

from __future__ import annotations

import pytest

from bus import Connection
from bus.stores import consumer_names
from bus.stores.parcel_stream import open_carriage, put_record, read_records
from bus.stores.record_store import writer
from bus.wire import subjects
from tests.attacker import Attacker
from tests.pdp.access.attempts import may_publish, may_subscribe
from tests.secured import PEP, secured

BROKER = "network: shop\naction: connect|carry"
PARCELS = subjects.PARCELS
PARCEL = subjects.parcel("shop", subjects.TypePlace(subjects.FILE, "OWNER", "t"))


@pytest.fixture
async def world(tmp_path):
    async with secured(tmp_path) as (world, _):
        yield world


async def test_members_without_the_right_to_carry_neither_read_nor_publish_what_brokers_do(world):
    async with world.connect(BROKER) as broker, world.connect(PEP) as member:
        assert await may_publish(broker, subjects.carry(writer(broker)))
        own = writer(member)
        for api in (
            f"STREAM.MSG.GET.{PARCELS}",
            f"DIRECT.GET.{PARCELS}",
            f"DIRECT.GET.{PARCELS}.{PARCEL}",
            f"CONSUMER.CREATE.{PARCELS}",
            f"CONSUMER.CREATE.{PARCELS}.{own}-0",
            f"CONSUMER.CREATE.{PARCELS}.any.{PARCEL}",
            f"CONSUMER.DURABLE.CREATE.{PARCELS}.{own}-0",
            f"CONSUMER.MSG.NEXT.{PARCELS}.{writer(broker)}-0",
            f"STREAM.PURGE.{PARCELS}",
        ):
            assert not await may_publish(member, f"$JS.API.{api}"), api
        assert not await may_publish(member, PARCEL)
        assert not await may_publish(member, subjects.carry(own))
        assert not await may_subscribe(member, subjects.parcels(None))
        assert not await may_subscribe(member, subjects.broker_record(None, "*", ">"))


async def test_a_broker_uses_its_own_consumers_only_and_makes_none(world):
    async with world.connect(BROKER) as broker, world.connect(BROKER) as other:
        for name in consumer_names(writer(broker)):
            for what in ("CREATE", "DELETE"):
                assert not await may_publish(broker, f"$JS.API.CONSUMER.{what}.{PARCELS}.{name}")
            for what in ("INFO", "MSG.NEXT"):
                assert await may_publish(broker, f"$JS.API.CONSUMER.{what}.{PARCELS}.{name}")
                assert not await may_publish(other, f"$JS.API.CONSUMER.{what}.{PARCELS}.{name}")
            assert not await may_publish(other, f"$JS.ACK.{PARCELS}.{name}.1.1.1.1.0")
        assert not await may_subscribe(broker, subjects.parcels(None))


async def test_nobody_replaces_the_records_of_another_broker(world):
    async with world.connect(BROKER) as broker, world.connect(BROKER) as other:
        await put_record(broker, "shop", "word.x", b"a withdrawal")
        await put_record(other, "shop", "word.x", b"something else")
        assert not await may_publish(other, subjects.broker_record("shop", writer(broker), "word.x"))
        found = [(subject, data) async for subject, data in read_records(other)]
        assert (subjects.broker_record("shop", writer(broker), "word.x"), b"a withdrawal") in found


async def test_nobody_writes_a_record_by_naming_it_as_the_place_for_answers(jetstream_server):
    """Also where everybody is let in: the server refuses such a place."""
    subject = subjects.broker_record("shop", "x", "word.x")
    async with Connection(jetstream_server.url) as bus:
        await open_carriage(bus)
        with Attacker(jetstream_server.url) as attacker:
            attacker.publish(b"$JS.API.INFO", reply=subject.encode())
        assert subject not in [each async for each, _ in read_records(bus)]
