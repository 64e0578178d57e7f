"""The feed gives verified releases only, in order, and is not confused by junk in the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from authz import Identity
from authz.release import Release, Released, sign_release
from bus import Connection, NatsServer
from bus.feeds.release_feed import Feed
from bus.stores.record_store import RecordStore
from bus.wire.subjects import RELEASES

ANN, EVE = Identity.generate(), Identity.generate()


@pytest.fixture
async def bus() -> AsyncIterator[Connection]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield bus


@pytest.fixture
async def feed(bus: Connection) -> AsyncIterator[Feed]:
    async with Feed(bus, "shop", {ANN.public}) as feed:
        yield feed


async def release(
    feed: Feed, last: Released | None = None, by: Identity = ANN, message: str = ""
) -> Released:
    content = Release(
        "shop",
        last.release.sequence + 1 if last else 1,
        "",
        (),
        0.0,
        message=message,
        before=last.hash if last else "",
    )
    newest = await feed.store.newest("shop")
    data = sign_release(content, by)
    await feed.store.commit("shop", data, newest.revision if newest else 0)
    return Released.open(data, "shop", {by.public})


async def test_the_newest_release_is_the_one_stored_last(feed):
    assert await feed.newest() is None
    first = await release(feed)
    second = await release(feed, first)
    assert (await feed.newest()).released == second
    assert [each.released for each in await feed.history()] == [first, second]
    assert await feed.since(first) == [second]


async def test_junk_is_passed_over_and_reported(feed):
    good = await release(feed)
    await release(feed, good, by=EVE)
    newest = await feed.newest()
    assert newest.released == good
    assert f"the entry after {good} is refused" in newest.problem
    assert str(EVE.public) in newest.problem
    assert await feed.since(good) == []
    last = await release(feed, good)
    assert (await feed.newest()).released == last
    assert [each.released for each in await feed.history()] == [good, None, last]


async def test_where_nothing_is_verified_there_is_only_the_problem(feed):
    await release(feed, by=EVE)
    newest = await feed.newest()
    assert newest.released is None
    assert "not trusted" in newest.problem


async def test_a_deleted_release_still_counts_as_long_as_it_is_kept(feed, bus):
    good = await release(feed)
    await RecordStore(bus, RELEASES).remove("shop")
    assert (await feed.newest()).released == good


async def test_a_gap_in_the_chain_is_seen(feed):
    first = await release(feed)
    second = await release(feed, first)
    forked = await release(feed, first, message="as if the second had never been")
    history = await feed.history()
    assert [each.released for each in history] == [first, second, None]
    assert history[-1].problem == f"it does not follow {second}"
    assert forked.epoch == second.epoch


async def test_news_ends_the_wait(feed):
    first = await release(feed)
    await feed.news(20.0)
    assert (await feed.newest()).released == first
    await feed.news(0.01)
