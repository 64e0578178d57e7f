"""Shared state is changed by one replica at a time, whole, however large it is."""

import hashlib
import os

import pytest

from bus import Connection
from bus.stores.release_store import CHUNK_BYTES, read_entry
from bus.stores.state_store import StateMoved, StateStore


@pytest.fixture
async def store(jetstream_server):
    async with Connection(jetstream_server.url) as connection:
        yield StateStore(connection, f"state-{os.urandom(4).hex()}")


@pytest.mark.parametrize("size", [0, 10, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 7])
async def test_a_document_of_any_size_is_read_as_it_was_written(store, size):
    data = os.urandom(size)
    assert await store.read("a.b") is None
    revision = await store.write("a.b", data, 0)
    found = await store.read("a.b")
    assert (found.revision, found.data) == (revision, data)


async def test_of_two_who_change_a_document_at_once_one_is_told(store):
    first = await store.write("a", b"one", 0)
    await store.write("a", b"two", first)
    for stale in (0, first):
        with pytest.raises(StateMoved) as error:
            await store.write("a", b"three", stale)
        assert error.value.name == "a"
    assert (await store.read("a")).data == b"two"


async def test_pieces_that_are_no_longer_named_are_deleted(store):
    large, larger = os.urandom(2 * CHUNK_BYTES), os.urandom(3 * CHUNK_BYTES)
    revision = await store.write("a", large, 0)
    await store.write("a", larger, revision)
    assert await pieces_kept(store, large) == 0
    assert await pieces_kept(store, larger) == 3
    assert (await store.read("a")).data == larger


async def pieces_kept(store: StateStore, data: bytes) -> int:
    """How many of the pieces that a document falls into are in the bucket."""
    parts = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    names = [f"piece.{hashlib.sha256(part).hexdigest()}" for part in parts]
    found = [await read_entry(store._connection, store._bucket, name) for name in names]
    return sum(entry is not None and bool(entry.data) for entry in found)
