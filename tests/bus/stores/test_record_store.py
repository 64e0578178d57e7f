"""Records stand under their names, are changed by whoever knows the last one, and leave nothing behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from bus import Connection, NatsServer
from bus.runtime import end_task
from bus.stores.record_store import Record, RecordChanged, RecordStore
from bus.wire import written
from tests.waiting import PATIENCE, eventually


@pytest.fixture
async def store() -> AsyncIterator[RecordStore]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield RecordStore(bus, "things")


async def test_a_record_is_changed_only_by_who_knows_the_last(store):
    first = await store.write("a.x", b"1", 0)
    for known in (0, first + 1):
        with pytest.raises(RecordChanged):
            await store.write("a.x", b"2", known)
    second = await store.write("a.x", b"2", first)
    assert await store.since(0) == [Record(second, "a.x", b"2")]


async def test_those_below_a_name_are_read_and_heard_by_themselves(store):
    heard: list[None] = []
    await store.listen(lambda: heard.append(None), "a")
    await store.write("b.x", b"1", 0)
    number = await store.write("a.x", b"2", 0)
    await eventually(lambda: heard)
    assert await store.since(0, "a") == [Record(number, "a.x", b"2")]
    assert len(heard) == 1


async def test_a_record_that_is_written_anew_while_all_are_read_is_among_them(store, monkeypatch):
    numbers = {each: await store.write(each, b"1", 0) for each in ("a.x", "a.y", "a.z")}
    read = store.read

    async def overtaken(number, below=""):
        async for record in read(number, below):
            if record.number == numbers["a.x"]:
                await store.write("a.y", b"2", numbers["a.y"])
            yield record

    monkeypatch.setattr(store, "read", overtaken)
    found = [(each.name, each.data) for each in await store.all("a")]
    assert sorted(found) == [("a.x", b"1"), ("a.y", b"2"), ("a.z", b"1")]


async def test_nobody_is_kept_reading_by_whoever_writes_on_and_on(store):
    bus = store._connection
    await store.write("a.0", b"0", 0)

    async def write() -> None:
        for start in itertools.count(1, 50):
            for number in range(start, start + 50):
                bus.send(written("things", f"b.{number}"), b"junk")
            await bus.flush()

    writing = asyncio.create_task(write())
    try:
        async with asyncio.timeout(PATIENCE):
            while len(found := await store.since(0)) < 50:
                pass
            assert len(await store.all()) >= 50
        again = await store.since(found[-1].number)
        assert not {each.name for each in again} & {each.name for each in found}
    finally:
        await end_task(writing)


async def test_what_is_erased_may_be_written_as_if_it_had_never_been(store):
    await store.write("a.x", b"1", 0)
    await store.erase("a.x")
    assert [each.data for each in await store.since(0)] == [b""]
    assert await store.write("a.x", b"2", 0)
