"""Shared state is changed by one replica at a time, whole, however large it is."""

import hashlib
import os

import msgspec
import pytest

from bus import Connection
from bus.errors import StoreUnavailable
from bus.stores.release_store import CHUNK_BYTES, open_bucket, read_entry
from bus.stores.state_store import MAX_PIECES, State, StateMoved, StateStore
from bus.wire import kept, written


@pytest.fixture
async def store(jetstream_server):
    async with Connection(jetstream_server.url) as connection:
        yield StateStore(connection, f"state-{os.urandom(4).hex()}")


@pytest.mark.parametrize("size", [0, 10, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 7])
async def test_a_document_of_any_size_is_read_as_it_was_written(store, size):
    data = os.urandom(size)
    assert [each async for each in store.read("a.b")] == []
    revision = await store.write("a.b", data, 0)
    found = await newest(store, "a.b")
    assert (found.revision, found.data) == (revision, data)


async def test_of_two_who_change_a_document_at_once_one_is_told(store):
    first = await store.write("a", b"one", 0)
    await store.write("a", b"two", first)
    for stale in (0, first):
        with pytest.raises(StateMoved) as error:
            await store.write("a", b"three", stale)
        assert error.value.name == "a"
    assert (await newest(store, "a")).data == b"two"


async def test_pieces_that_are_no_longer_named_are_deleted(store):
    large, larger = os.urandom(2 * CHUNK_BYTES), os.urandom(3 * CHUNK_BYTES)
    revision = await store.write("a", large, 0)
    await store.write("a", larger, revision)
    assert await pieces_kept(store, large) == 0
    assert await pieces_kept(store, larger) == 3
    assert (await newest(store, "a")).data == larger


async def test_what_is_written_at_several_places_is_one_document_and_the_newest_comes_first(store):
    other = StateStore(store._connection, store._bucket)
    other.place = "OTHER"
    first = await store.write("a", b"one", 0)
    with pytest.raises(StateMoved):
        await other.write("a", b"two", 0)
    second = await other.write("a", b"two", first)
    with pytest.raises(StateMoved):
        await store.write("a", b"three", first)
    assert [(each.place, each.data, each.revision) async for each in store.read("a")] == [
        ("OTHER", b"two", second),
        (store.place, b"one", second),
    ]


async def test_what_was_stored_before_there_were_places_comes_last(store):
    bucket = await open_bucket(store._connection, store._bucket, 1)
    large = os.urandom(CHUNK_BYTES + 1)
    pieces = [large[:CHUNK_BYTES], large[CHUNK_BYTES:]]
    hashes = [hashlib.sha256(each).hexdigest() for each in pieces]
    for hash_, piece in zip(hashes, pieces, strict=True):
        await bucket.put(f"piece.{hash_}", piece)
    await bucket.put("a", msgspec.msgpack.encode((hashes, b"")))
    assert [(each.revision, each.data) async for each in store.read("a")] == [(0, large)]
    await store.write("a", b"moved", 0)
    assert (await newest(store, "a")).data == b"moved"


async def test_a_document_of_more_pieces_than_are_read_is_nothing_and_hides_no_other(store):
    other = StateStore(store._connection, store._bucket)
    other.place = "OTHER"
    revision = await store.write("a", b"one", 0)
    large = os.urandom(CHUNK_BYTES + 1)
    await other.write("a", large, revision)
    assert (await newest(store, "a")).data == large
    (entry,) = [await read_entry(store._connection, store._bucket, "OTHER.a")]
    (first, *_), _ = msgspec.msgpack.decode(entry.data)
    named = msgspec.msgpack.encode(([first] * (MAX_PIECES + 1), b""))  # one piece, again and again
    await store._connection.jetstream().publish(written(store._bucket, "OTHER.a"), named)
    assert [each.data async for each in store.read("a")] == [b"", b"one"]
    with pytest.raises(StoreUnavailable, match="nobody would read"):
        await store.write("b", bytes(MAX_PIECES * CHUNK_BYTES + 1), 0)


async def test_a_document_whose_pieces_were_damaged_is_nothing_and_hides_no_other(store):
    revision = await store.write("a", b"sound", 0)
    other = StateStore(store._connection, store._bucket)
    other.place = "OTHER"
    revision = await other.write("a", os.urandom(2 * CHUNK_BYTES), revision)
    for each in await piece_names(other):
        await (await open_bucket(store._connection, store._bucket, 1)).put(each, b"junk")
    assert [each.data async for each in store.read("a")] == [b"", b"sound"]


async def newest(store: StateStore, name: str) -> State:
    return await anext(store.read(name))


async def piece_names(store: StateStore) -> list[str]:
    below = kept(store._bucket, f"{store.place}.piece.")
    stream = f"KV_{store._bucket}"
    info = await store._connection.jetstream().stream_info(stream, subjects_filter=f"{below}*")
    return [each.removeprefix(kept(store._bucket, "")) for each in info.state.subjects]


async def pieces_kept(store: StateStore, data: bytes) -> int:
    """How many of the pieces that a document falls into are in the bucket."""
    parts = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    names = [f"{store.place}.piece.{hashlib.sha256(part).hexdigest()}" for part in parts]
    found = [await read_entry(store._connection, store._bucket, name) for name in names]
    return sum(entry is not None and bool(entry.data) for entry in found)
