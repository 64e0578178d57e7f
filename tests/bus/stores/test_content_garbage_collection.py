"""Content leaves the store when no kept release names it, and not before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from time import time

import pytest

from authz import Identity
from authz.release import Release, release_hash, sign_release
from bus import Connection, NatsServer
from bus.errors import ContentMissing
from bus.stores import HISTORY, ReleaseStore, chunk_hashes, collect_content
from bus.stores.content_garbage_collection import GRACE_SECONDS

ANN = Identity.generate()


@pytest.fixture
async def bus(jetstream_server: NatsServer) -> AsyncIterator[Connection]:
    async with Connection(jetstream_server.url) as bus:
        yield bus


async def release(
    store: ReleaseStore, domain: str, contents: Sequence[bytes], after: Sequence[str] = ()
) -> list[str]:
    """Release some content after the other, after releases with these hashes; returns all hashes."""
    hashes = list(after)
    for content in contents:
        newest, chunks = await store.newest(domain), await store.put(domain, content)
        before = hashes[-1] if hashes else ""
        data = sign_release(Release(domain, len(hashes) + 1, "", chunks, 0.0, before=before), ANN)
        await store.commit(domain, data, newest.revision if newest else 0)
        hashes.append(release_hash(data))
    return hashes


async def found(store: ReleaseStore, content: bytes, domain: str = "collecting") -> bool:
    try:
        return await store.get(domain, chunk_hashes(content)) == content
    except ContentMissing:
        return False


async def test_what_only_releases_before_the_history_named_is_taken_out_when_it_is_old(bus):
    store, later = ReleaseStore(bus), time() + GRACE_SECONDS + 60
    contents = [f"collected {number}".encode() for number in range(HISTORY + 4)]
    contents[-1] = contents[1]  # an old bundle is in force again
    await release(store, "another shop", [contents[2]])
    hashes = await release(store, "collecting", contents[:HISTORY])
    assert await collect_content(bus, "collecting", later) == 0, "all of it is kept"
    await release(store, "collecting", contents[HISTORY:], hashes)
    assert await collect_content(bus, "collecting", time()) == 0, "it is young"
    assert await collect_content(bus, "collecting", later) == 3
    assert [await found(store, each) for each in contents[:5]] == [False, True, False, False, True]
    assert await found(store, contents[2], "another shop")
    assert all([await store.get("collecting", (name,)) for name in hashes]), "descent can be shown still"
    assert await collect_content(bus, "collecting", later) == 0
    await store.put("collecting", contents[0])
    assert await found(store, contents[0])
