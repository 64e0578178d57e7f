"""The store keeps releases in order, lets nobody overwrite another's, and gives back exactly what was put in."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from functools import partial
from time import monotonic

import pytest
from nats.js.kv import KeyValue

from bus import Connection, NatsServer, cluster
from bus.errors import ContentMissing, Overtaken, StoreUnavailable
from bus.stores.release_store import (
    CHUNK_BYTES,
    HISTORY,
    NoLeader,
    ReleaseStore,
    Stored,
    open_bucket,
    read_entry,
    storing,
)
from bus.wire.subjects import CONTENT, RELEASES, written
from tests.waiting import eventually, once_it_works


@pytest.fixture
async def server() -> AsyncIterator[NatsServer]:
    async with NatsServer(jetstream=True) as server:
        yield server


@pytest.fixture
async def store(server: NatsServer) -> AsyncIterator[ReleaseStore]:
    async with Connection(server.url) as bus:
        yield ReleaseStore(bus)


async def test_a_domain_without_release_has_none(store):
    assert await store.newest("shop") is None
    assert await store.history("shop") == []
    await store.commit("other", b"x", 0)
    assert await store.newest("shop") is None


async def test_releases_are_kept_in_order_for_each_domain(store):
    first = await store.commit("shop", b"one", 0)
    await store.commit("a domain/with. odd *name>", b"other", 0)
    second = await store.commit("shop", b"two", first)
    assert await store.newest("shop") == Stored(second, b"two")
    assert await store.history("shop") == [Stored(first, b"one"), Stored(second, b"two")]
    assert await store.history("shop", after=first) == [Stored(second, b"two")]


async def test_of_two_who_release_at_once_one_is_told_that_the_other_was_first(store):
    first = await store.commit("shop", b"one", 0)
    results = await asyncio.gather(
        *(store.commit("shop", data, first) for data in (b"two", b"too")), return_exceptions=True
    )
    lost = next(each for each in results if isinstance(each, Overtaken))
    won = next(each for each in results if isinstance(each, int))
    assert (lost.domain, lost.expected, lost.found) == ("shop", first, won)
    assert len(await store.history("shop")) == 2


async def test_to_commit_the_same_again_after_a_lost_acknowledgement_is_no_conflict(store):
    epoch = await store.commit("shop", b"one", 0)
    assert await store.commit("shop", b"one", 0) == epoch
    assert len(await store.history("shop")) == 1


async def test_the_last_releases_are_kept(store):
    epoch = 0
    for number in range(HISTORY + 3):
        epoch = await store.commit("shop", b"%d" % number, epoch)
    history = await store.history("shop")
    assert len(history) == HISTORY
    assert history[-1] == Stored(epoch, b"%d" % (HISTORY + 2))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 1])
async def test_content_of_any_size_comes_back_as_it_was(store, size):
    content = bytes(range(256)) * (size // 256 + 1)
    names = await store.put("shop", content[:size])
    assert await store.put("shop", content[:size]) == names
    assert len(names) == -(-size // CHUNK_BYTES)
    assert await store.get("shop", names) == content[:size]


async def test_content_that_is_missing_or_was_tampered_with_is_named(store, server):
    (name,) = await store.put("shop", b"content")
    with pytest.raises(ContentMissing) as missing:
        await store.get("shop", [name, "0" * 64])
    assert missing.value.hash == "0" * 64
    async with Connection(server.url) as bus:
        await bus.jetstream().publish(written(CONTENT, f"blob.shop.{name}"), b"tampered")
    with pytest.raises(ContentMissing):
        await store.get("shop", [name])


async def test_content_that_a_version_before_has_stored_is_found(store, server):
    name = hashlib.sha256(b"content").hexdigest()
    await store.put("shop", b"other content")
    async with Connection(server.url) as bus:
        await bus.jetstream().publish(written(CONTENT, f"blob.{name}"), b"content")
    assert await store.get("shop", [name]) == b"content"


async def test_news_of_a_release_comes_by_itself_and_only_for_its_domain(store):
    heard: list[str] = []
    await store.commit("shop", b"one", 0)
    await store.listen("shop", lambda said: heard.append("shop"))
    await store.listen("bank", lambda said: heard.append("bank"))
    await store.commit("shop", b"two", 1)
    await eventually(lambda: heard)
    assert heard == ["shop"]


async def test_a_refused_release_is_no_news(store):
    heard: list[str] = []
    await store.commit("shop", b"one", 0)
    await store.listen("shop", lambda said: heard.append("shop"))
    with pytest.raises(Overtaken):
        await store.commit("shop", b"two", 0)
    await store.commit("shop", b"two", 1)
    await eventually(lambda: heard)
    assert heard == ["shop"]


async def test_without_a_store_it_says_so():
    async with NatsServer() as server, Connection(server.url) as bus:
        store = ReleaseStore(bus, seconds=1.0)
        for work in (store.newest("shop"), store.commit("shop", b"x", 0), store.put("shop", b"x")):
            with pytest.raises(StoreUnavailable):
                await work


async def test_releases_survive_a_restart_of_the_server(server):
    async with Connection(server.url) as bus:
        epoch = await ReleaseStore(bus).commit("shop", b"one", 0)
        await server.stop()
        await server.start()
        assert await bus.wait_ready(10.0)
        stored = await once_it_works(lambda: ReleaseStore(bus).newest("shop"), StoreUnavailable)
        assert stored == Stored(epoch, b"one")


async def test_in_a_cluster_releases_survive_the_loss_of_a_node():
    async with cluster(3, jetstream=True) as nodes, Connection(nodes[0].url) as bus:
        store = ReleaseStore(bus, seconds=5.0)
        epoch = await _once_there_is_a_leader(lambda: store.commit("shop", b"one", 0))
        await nodes[2].stop()
        stored = await _once_there_is_a_leader(lambda: store.newest("shop"))
        assert stored == Stored(epoch, b"one")


async def _once_there_is_a_leader(work):
    return await once_it_works(work, StoreUnavailable)


async def test_a_damaged_copy_of_three_is_mended_by_the_others_when_its_server_starts():
    async with cluster(3, jetstream=True) as nodes, Connection(nodes[0].url) as bus:
        store, data = ReleaseStore(bus, seconds=5.0), b"stored last"
        first = await _once_there_is_a_leader(lambda: store.commit("shop", b"one", 0))
        await _once_there_is_a_leader(lambda: store.commit("shop", data, first))
        leader = (await _once_there_is_a_leader(store.position)).leader
        damaged = next(node for node in nodes[1:] if not leader.startswith(f"{node.name} "))
        assert damaged.log is not None
        (messages,) = damaged.log.parent.rglob(f"KV_{RELEASES}/msgs")
        await eventually(lambda: any(data in block.read_bytes() for block in messages.glob("*.blk")))
        await damaged.stop()
        (block,) = messages.glob("*.blk")
        block.write_bytes(block.read_bytes().replace(data, data[:-1] + b"?"))
        (messages / "index.db").unlink()
        await damaged.start()
        await eventually(lambda: any(data in block.read_bytes() for block in messages.glob("*.blk")), 60)


async def test_a_leader_that_is_cut_off_tells_how_old_its_word_is():
    async with cluster(3, jetstream=True) as nodes, Connection(nodes[0].url) as first:
        await _once_there_is_a_leader(lambda: ReleaseStore(first).commit("shop", b"one", 0))
        named = (await _once_there_is_a_leader(ReleaseStore(first).position)).leader
        (leader,) = [node for node in nodes if named.startswith(f"{node.name} ")]
        async with Connection(leader.url) as bus:
            store = ReleaseStore(bus)
            assert (await _once_there_is_a_leader(store.position)).age < 3.0
            for node in nodes:
                if node is not leader:
                    node.freeze()
            cut = monotonic()

            async def told() -> float:
                age = (await store.position()).age
                assert age > 4.0
                return age

            assert await once_it_works(told, AssertionError) >= monotonic() - cut - 1.0
            for node in nodes:
                if node is not leader:
                    node.thaw()


async def test_what_nobody_takes_is_written_as_soon_as_there_is_a_leader_and_the_store_is_not_called_full(
    server,
):
    async with Connection(server.url) as bus:
        name = "AF_LEADERLESS"
        entry = KeyValue(name, f"KV_{name}", written(name, ""), bus.jetstream(), direct=False)
        with pytest.raises(NoLeader):
            await storing(bus, name, partial(entry.put, "a", b"x"), seconds=0.0)
        writing = asyncio.create_task(storing(bus, name, partial(entry.put, "a", b"x")))
        await open_bucket(bus, name, 1)
        assert await writing == 1
        assert (await read_entry(bus, name, "a")).data == b"x"
