"""Definitions in the store of a real server."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest
from msgspec import structs

from authz.errors import InvalidSignature
from bus import Connection
from bus.errors import StoreUnavailable
from bus.stores.record_store import RecordExists, RecordStore
from bus.wire.subjects import TYPES
from pubsub_core.errors import TypeRefused, UnknownType
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.types.event_type import EventType
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType, removal
from tests.pubsub_core.kinds import PITO, THIEF
from tests.secured import Secured, secured
from tests.waiting import PATIENCE


def kind(name: str, **more) -> EventType:
    return EventType.new(f"{name}.T{uuid4().hex}", PITO.public, [], uuid4, **more)


@pytest.fixture
async def bus(jetstream_server):
    async with Connection(jetstream_server.url) as connection:
        yield connection


async def test_what_one_publishes_others_find_and_hear_of(bus):
    mine, theirs = TypeStore(bus, Catalogue()), TypeStore(bus, Catalogue())
    news = asyncio.Event()
    await theirs.listen(news.set)
    definition = kind("found")
    await mine.publish(SignedType.sign(definition, PITO))
    await asyncio.wait_for(news.wait(), PATIENCE)
    assert await theirs.refresh()
    assert theirs.catalogue.named(definition.name) == definition
    assert not await theirs.refresh()
    await mine.remove(definition.id, removal(definition.name, 1.0, PITO))
    assert await theirs.refresh()
    with pytest.raises(UnknownType):
        theirs.catalogue.named(definition.name)


async def test_what_was_taken_out_may_come_back(bus):
    mine, theirs = TypeStore(bus, Catalogue()), TypeStore(bus, Catalogue())
    definition = kind("again")
    for at in (1.0, 3.0):
        await mine.publish(SignedType.sign(definition, PITO, at=at))
        await theirs.refresh()
        assert definition.version in theirs.catalogue
        await mine.remove(definition.id, removal(definition.name, at + 1.0, PITO))
        await theirs.refresh()
        assert definition.version not in theirs.catalogue
        later = TypeStore(bus, Catalogue())
        await later.refresh()
        assert definition.version not in later.catalogue


async def test_neither_an_old_removal_nor_an_old_definition_counts_again(bus):
    mine, theirs, records = TypeStore(bus, Catalogue()), TypeStore(bus, Catalogue()), RecordStore(bus, TYPES)
    definition = kind("twice")
    old, word = SignedType.sign(definition, PITO, at=1.0), removal(definition.name, 2.0, PITO)
    await mine.publish(old)
    await mine.remove(definition.id, word)
    await records.put(f"{definition.id}.again", old.encode())
    await theirs.refresh()
    assert definition.version not in theirs.catalogue
    with pytest.raises(TypeRefused, match="signed anew"):
        await mine.publish(old)
    await mine.publish(SignedType.sign(definition, PITO, at=3.0))
    await records.put(f"{definition.id}.removed-again", word)
    for store in (mine, theirs, TypeStore(bus, Catalogue())):
        assert await store.refresh()
        assert store.catalogue.named(definition.name) == definition
    with pytest.raises(TypeRefused, match="clocks"):
        await mine.remove(definition.id, word)


async def test_the_time_of_a_definition_is_signed_with_it(bus):
    signed = SignedType.sign(kind("dated"), PITO, at=1.0)
    with pytest.raises(TypeRefused):
        Catalogue().accept(structs.replace(signed, at=3.0), 5.0)


async def test_nobody_but_its_owner_takes_a_type_out(bus):
    """Every broker may write to the store, of whatever domain."""
    mine, theirs = TypeStore(bus, Catalogue()), TypeStore(bus, Catalogue())
    definition = kind("kept")
    await mine.publish(SignedType.sign(definition, PITO))
    await theirs.refresh()
    word, records = removal(definition.name, 1.0, THIEF), RecordStore(bus, TYPES)
    other = kind("other")
    await mine.publish(SignedType.sign(other, PITO))
    for wrong in (word, removal(other.name, 1.0, PITO), b""):
        with pytest.raises(InvalidSignature):
            await mine.remove(definition.id, wrong)
    await records.put(f"{definition.id}.removed-x", word)
    await records.put(f"{definition.id}.removed-y", b"junk")
    for each in await records.since(0, definition.id):
        if not each.name.startswith(f"{definition.id}.removed-"):
            await records.remove(each.name)
    for store in (mine, theirs):
        assert await store.refresh()
        assert store.catalogue.named(definition.name) == definition


async def test_what_is_not_rightly_signed_is_neither_stored_nor_believed(bus):
    forged = SignedType.sign(kind("forged"), THIEF)
    with pytest.raises(TypeRefused):
        await TypeStore(bus, Catalogue()).publish(forged)
    records = RecordStore(bus, TYPES)
    await records.put(f"{forged.definition.id}.{forged.definition.version}", forged.encode())
    await records.put(f"junk.{uuid4().hex}", b"junk")
    reader = TypeStore(bus, Catalogue())
    await reader.refresh()
    assert forged.definition.version not in reader.catalogue


async def test_a_record_is_never_overwritten(bus):
    records = RecordStore(bus, "authfabric-test-records")
    await records.put("a.b", b"1")
    await records.put("a.b", b"1")
    with pytest.raises(RecordExists):
        await records.put("a.b", b"2")
    assert [each.data for each in await records.since(0)] == [b"1"]


async def test_definitions_that_are_left_out_for_one_reason_are_told_of_once(bus, caplog):
    plain, sealed = TypeStore(bus, Catalogue()), TypeStore(bus, Catalogue(), bytes(32))
    for _ in range(2):
        await plain.publish(SignedType.sign(kind("open"), PITO))
    caplog.clear()
    await sealed.refresh()
    told = [
        each for each in caplog.messages if each.endswith("left out: not kept under the network key given")
    ]
    assert len(told) == 1
    assert int(told[0].split()[0]) >= 2


@pytest.fixture
async def network(tmp_path):
    """A server where keys count."""
    async with secured(tmp_path) as (world, _):
        yield world


def member(world: Secured, actions: str) -> Connection:
    return world.connect(f"network: default\naction: {actions}")


@pytest.mark.parametrize("actions", ["connect|install", "connect|carry"])
async def test_whoever_may_write_to_the_store_writes_only_what_is_its_own(network, actions):
    definition = kind("guarded")
    async with member(network, "connect|install") as owner, member(network, actions) as thief:
        mine = TypeStore(owner, Catalogue())
        await mine.publish(SignedType.sign(definition, PITO))
        (record,) = await RecordStore(owner, TYPES).since(0)
        stolen = RecordStore(thief, TYPES)
        with pytest.raises(StoreUnavailable):
            await stolen.remove(record.name)
        with pytest.raises(StoreUnavailable):
            await stolen.write(record.name, b"junk", record.number)
        with pytest.raises(StoreUnavailable):
            await stolen.put(f"{definition.id}.{definition.version}", b"junk")
        assert await RecordStore(owner, TYPES).since(0) == [record]
        await TypeStore(thief, Catalogue()).publish(SignedType.sign(kind("theirs"), PITO))
