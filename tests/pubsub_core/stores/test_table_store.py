"""Context tables: signed, the latest counts, and nobody else's."""

from __future__ import annotations

from uuid import uuid4

import pytest

from authz import Identity
from bus import Connection
from bus.stores.record_store import RecordChanged, RecordStore
from bus.stores.record_store import writer as place
from bus.wire.subjects import CONTEXT, token, written
from pubsub_core.rules.table import TABLE, InvalidTable, Table, changed
from pubsub_core.stores.table_store import TableStore
from tests.pdp.access.attempts import may_publish
from tests.secured import secured

OWNER, THIEF = Identity.from_seed(b"o" * 32), Identity.from_seed(b"t" * 32)


@pytest.fixture
async def bus(jetstream_server):
    async with Connection(jetstream_server.url) as bus:
        yield bus


def store(bus: Connection, domain: str, network: bytes = b"") -> TableStore:
    return TableStore(bus, domain, {OWNER.public}, network)


@pytest.mark.parametrize("network", [b"", b"n" * 32])
async def test_what_one_writes_another_reads(bus, network):
    domain = uuid4().hex
    writer, reader = store(bus, domain, network), store(bus, domain, network)
    news = []
    await reader.listen(lambda: news.append(1))
    await writer.put("staff", {"ann": {"ward": "C3", "level": 2}}, OWNER)
    assert await reader.refresh()
    assert reader.tables == {"staff": {"ann": {"ward": "C3", "level": 2}}}
    await reader.put("staff", {"ann": {"ward": "C4"}}, OWNER)
    with pytest.raises(RecordChanged):
        await writer.put("staff", {}, OWNER)
    await writer.refresh()
    assert writer.tables["staff"]["ann"]["ward"] == "C4"
    assert news
    await writer.remove("staff", OWNER)
    await reader.refresh()
    assert reader.tables == {}
    assert not store(bus, f"{domain}x").tables


async def test_what_was_not_signed_by_somebody_trusted_or_is_old_is_left_out(bus):
    domain = uuid4().hex
    writer, reader, records = store(bus, domain), store(bus, domain), RecordStore(bus, CONTEXT)
    await writer.put("staff", {"ann": {"ward": "C3"}}, OWNER)
    (old,) = await records.since(0, token(domain))
    await writer.put("staff", {"ann": {"ward": "C4"}}, OWNER)
    await reader.refresh()
    await records.write(old.name, old.data, writer._numbers[old.name])
    (again,) = await records.since(reader._read, token(domain))
    await reader.refresh()
    assert reader.tables["staff"]["ann"]["ward"] == "C4", "an old version does not come back"
    forged = TABLE.sign(Table(domain, "staff", 9, {"ann": {"ward": "X"}}), THIEF)
    number = await records.write(old.name, forged, again.number)
    await reader.refresh()
    elsewhere = TABLE.sign(Table(domain, "other", 9, {}), OWNER)
    await records.write(old.name, elsewhere, number)
    await reader.refresh()
    assert reader.tables == {"staff": {"ann": {"ward": "C4"}}}


async def test_a_table_that_was_removed_comes_back_by_its_owner_only(bus):
    domain = uuid4().hex
    writer, reader, records = store(bus, domain), store(bus, domain), RecordStore(bus, CONTEXT)
    await writer.put("staff", {"ann": {"ward": "C3"}}, OWNER)
    (old,) = await records.since(0, token(domain))
    await writer.remove("staff", OWNER)
    await reader.refresh()
    await records.write(old.name, old.data, writer._numbers[old.name])
    await reader.refresh()
    assert reader.tables == {}, "what was signed before does not count any more"
    again = TableStore(bus, domain, {THIEF.public})
    await again.refresh()
    await again.put("staff", {"bob": {"ward": "C5"}}, THIEF)
    another = store(bus, domain)
    await another.refresh()
    await another.put("staff", {"ann": {"ward": "C4"}}, OWNER)
    await reader.refresh()
    assert reader.tables == {"staff": {"ann": {"ward": "C4"}}}, (
        "who knows of no version before signs a later one"
    )


async def test_whoever_else_may_write_tables_neither_takes_one_out_nor_brings_an_older_version_back(tmp_path):
    """Somebody who may install, and signs nothing that counts, tries it on brokers that start afterwards."""
    install = "network: shop\naction: connect|install"
    async with (
        secured(tmp_path) as (world, access),
        world.connect(install) as owner,
        world.connect(install) as thief,
    ):
        writer = store(owner, "shop")
        await writer.put("staff", {"ann": {"ward": "C3"}}, OWNER)
        (old,) = await RecordStore(access.member, CONTEXT).since(0)
        await writer.put("staff", {}, OWNER)
        assert not await may_publish(thief, written(CONTEXT, old.name))
        for name, data in (("staff", old.data), ("other", b"junk")):
            await RecordStore(thief, CONTEXT).put(f"shop.{place(thief)}.{name}", data)
        started = store(owner, "shop")
        await started.refresh()
        assert (started.tables, set(started.left_out)) == ({"staff": {}}, {"other"})
        records = RecordStore(thief, CONTEXT)
        await records.remove(f"shop.{place(thief)}.staff")
        await started.refresh()
        assert started.tables == {"staff": {}}


async def test_a_table_that_is_too_large_is_refused(bus):
    rows = {str(number): {"text": "x" * 1000} for number in range(1000)}
    with pytest.raises(InvalidTable, match="split it"):
        await store(bus, uuid4().hex).put("large", rows, OWNER)


def test_columns_are_set_and_taken_out():
    rows = changed({"ann": {"ward": "C3", "level": 1}}, "ann", {"level": None, "name": "Ann"})
    assert rows == {"ann": {"ward": "C3", "name": "Ann"}}
    assert changed(rows, "bob", {"ward": "A"})["bob"] == {"ward": "A"}
    assert changed(rows, "ann", {"ward": None, "name": None}) == {}
