"""FastStream's handlers on the event service: what they hear and say is what policies let through."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from time import time

import pytest
from faststream.exceptions import FeatureNotSupportedException, StopConsume
from pydantic import BaseModel

from authz import Identity
from bus import Connection
from pubsub_core import InvalidEvent, Refused
from pubsub_core.client import ProfileFile, write_profile
from pubsub_core.integrations.faststream import EventBroker
from pubsub_core.trust import Credential, issue
from tests.pubsub_core.town import NEWS, OPEN, rule, take, town
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class News(BaseModel):
    headline: str
    place: str | None = None
    score: int = 0


class Alert(BaseModel):
    text: str


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        await place.broker("north")
        yield place


def desk(place, path, lasts: float = 1000.0):
    """The profile of a service."""
    if not path.exists():
        key = Identity.generate()
        given = Credential(str(key.public), "desk", place.domain, time() + lasts)
        credential = base64.b64encode(issue(given, place.key)).decode()
        brokers = (f"north-{place.domain}",)
        write_profile(path, ProfileFile("desk", brokers, key.to_pem().decode(), credential, place.domain))
    return path


@contextlib.asynccontextmanager
async def started(broker):
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def heard(queue: asyncio.Queue[News]) -> News:
    return await asyncio.wait_for(queue.get(), PATIENCE)


async def test_a_handler_hears_what_policies_let_through_and_what_it_returns_is_an_event(place, tmp_path):
    news, alerts = await place.define("News", *NEWS), await place.define("Alert", ("text", "string"))
    hidden = rule("desk", "[{hidden: [place]}]", action_id="subscribe", resource_id=f"/types/{news.name}")
    await place.release(OPEN.replace("targets: {}", "targets: {action_id: [connect, advertise, publish]}") + hidden
                        + rule("alerts", action_id="subscribe", resource_id=f"/types/{alerts.name}"))  # fmt: skip
    queue: asyncio.Queue[News] = asyncio.Queue()
    broker = EventBroker(
        desk(place, tmp_path / "desk.json"), url=place.server.url, filters={news.name: "score > 2"}
    )

    @broker.subscriber(news.name)
    @broker.publisher(alerts.name)
    async def handle(message: News) -> Alert:
        queue.put_nowait(message)
        return Alert(text=message.headline.upper())

    ann = await place.client("ann", "north")
    shouted, publisher = await ann.subscriber(alerts.name), await ann.publisher(news.name)
    async with started(broker), Connection(place.server.url) as plain:
        plain.send(news.name, b'{"headline": "on a plain subject", "score": 9}')
        await plain.flush()
        await publisher.publish(headline="low", place="here", score=1)
        await publisher.publish(headline="high", place="here", score=3)
        assert await heard(queue) == News(headline="high", score=3)
        assert await take(shouted, 1) == [{"text": "HIGH"}]
        assert await broker.ping(PATIENCE)
    assert queue.empty()


async def test_what_a_handler_fails_at_comes_again_to_the_next_of_its_queue(place, tmp_path):
    news = await place.define("News", *NEWS)
    profile, queue = desk(place, tmp_path / "desk.json"), asyncio.Queue()

    def service(fails: str) -> EventBroker:
        broker = EventBroker(profile, url=place.server.url, logger=None)

        @broker.subscriber(news.name, queue="desk")
        async def handle(message: News) -> None:
            queue.put_nowait(message)
            if message.headline == fails:
                raise ValueError(fails)

        return broker

    publisher = await (await place.client("ann", "north")).publisher(news.name)
    async with started(service("second")):
        for headline in ("first", "second", "third"):
            await publisher.publish(headline=headline)
        assert [(await heard(queue)).headline for _ in range(3)] == ["first", "second", "third"]
    async with started(service("")):
        assert (await heard(queue)).headline == "second"
        await publisher.publish(headline="fourth")
        assert (await heard(queue)).headline == "fourth"


async def test_what_may_not_be_published_is_an_error_of_who_publishes(place, tmp_path):
    news, other = await place.define("News", *NEWS), await place.define("Other", *NEWS)
    await place.release(
        OPEN.replace("targets: {}", "targets: {action_id: [connect, subscribe]}")
        + rule(
            "some",
            "[{filter: score < 5}]",
            action_id="[advertise, publish]",
            resource_id=f"/types/{news.name}",
        )
    )
    async with started(EventBroker(desk(place, tmp_path / "desk.json"), url=place.server.url)) as broker:
        await broker.publish(News(headline="x", score=1), news.name)
        with pytest.raises(InvalidEvent, match="a restriction excludes it"):
            await broker.publish(News(headline="x", score=7), news.name)
        with pytest.raises(InvalidEvent, match="`title` is no attribute"):
            await broker.publish({"title": "x"}, news.name)
        with pytest.raises(Refused):
            await broker.publish(News(headline="x"), other.name)
        with pytest.raises(FeatureNotSupportedException):
            await broker.request(News(headline="x"), news.name)


async def test_when_nothing_can_come_any_more_the_log_says_why_and_a_ping_fails(place, tmp_path, caplog):
    news = await place.define("News", *NEWS)
    broker = EventBroker(desk(place, tmp_path / "desk.json", lasts=3.0), url=place.server.url)
    broker.subscriber(news.name)(lambda message: None)
    async with started(broker):
        await eventually(lambda: "get nothing any more: the session is over" in caplog.text)
        assert not await broker.ping(0.01)


async def test_a_handler_may_end_its_own_subscription(place, tmp_path):
    news = await place.define("News", *NEWS)
    queue: asyncio.Queue[News] = asyncio.Queue()
    broker = EventBroker(desk(place, tmp_path / "desk.json"), url=place.server.url)

    @broker.subscriber(news.name)
    async def handle(message: News) -> None:
        queue.put_nowait(message)
        raise StopConsume

    publisher = await (await place.client("ann", "north")).publisher(news.name)
    async with started(broker):
        await publisher.publish(headline="first")
        assert (await heard(queue)).headline == "first"
        await eventually(lambda: not publisher.interested)
