"""Clients that know several brokers go on at another when their own is lost: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from pubsub_core.client.client import EventClient
from pubsub_core.errors import NoBroker
from tests.pubsub_core.town import NEWS, take, wanted
from tests.waiting import PATIENCE, eventually

BOTH = ("north", "south")


@contextlib.asynccontextmanager
async def two(place, **more):
    """Two brokers, each of which can be ended by itself."""
    async with contextlib.AsyncExitStack() as stack:
        ends = {}
        for name in BOTH:
            ending = contextlib.AsyncExitStack()
            await stack.enter_async_context(ending)
            service = await ending.enter_async_context(place.running(name, **more))
            ends[f"{name}-{place.domain}"] = (service, ending)
        yield ends


def silence(service) -> None:
    """Have a broker say nothing any more, like one that is frozen."""
    service._bus.send = lambda *args, **more: None


async def test_what_reaches_a_broker_that_is_about_to_end_is_published_at_another(place, monkeypatch):
    """Its keys are gone, and its word that clients go elsewhere has not come yet: it refuses nothing any more."""
    monkeypatch.setattr("pubsub_core.broker.core.Broker.drain", lambda self: None)
    kind = await place.define("News", *NEWS)
    async with two(place) as brokers, place.connected("ann", "", among=BOTH) as writer:
        publisher = await writer.publisher(kind.name)
        (host,) = [name for name, (service, _) in brokers.items() if service.broker.sessions]
        (other,) = brokers.keys() - {host}
        service, ending = brokers[host]
        async with place.connected("bob", other.removesuffix(f"-{place.domain}")) as reader:
            subscriber = await reader.subscriber(kind.name)
            await wanted(publisher)
            await service._drain()
            monkeypatch.setattr(service.sealing.vault, "lacks", lambda *args: "")
            await publisher.publish(score=7)
            for bus in (publisher._client.bus, service._bus):
                publisher._outgoing.hurry()
                await bus.flush()  # it was heard there
            await ending.aclose()
            await asyncio.wait_for(publisher.flush(), PATIENCE)
            assert await take(subscriber, 1) == [{"score": 7}]


async def test_publisher_and_subscriber_go_on_at_another_broker(place):
    """One of them stands still in the middle of it: every event comes once, in order, without a gap."""
    kind = await place.define("News", *NEWS)
    async with (
        two(place) as brokers,
        place.connected("bob", "", among=BOTH) as reader,
        place.connected("ann", "", among=BOTH) as writer,
    ):
        subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
        await wanted(publisher)

        async def publish() -> None:
            for number in range(3000):
                await publisher.publish(score=number)
                if number == 1500:
                    silence(brokers[writer.broker][0])
                if number % 20 == 0:
                    await asyncio.sleep(0.001)
            await publisher.flush()

        task = asyncio.create_task(publish())
        assert [each["score"] for each in await take(subscriber, 3000)] == list(range(3000))
        await task
        assert writer.sessions_begun == 2
        assert subscriber.gaps == 0


async def test_a_drained_broker_sends_its_clients_to_others(place):
    kind = await place.define("News", *NEWS)
    async with two(place) as brokers, place.connected("bob", "", among=BOTH) as client:
        subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
        first = client.broker
        await publisher.publish(score=1)
        await publisher.flush()
        await brokers[first][1].aclose()
        await publisher.publish(score=2)
        await publisher.flush()
        assert [each["score"] for each in await take(subscriber, 2)] == [1, 2]
        assert client.broker != first
        assert subscriber.gaps == 0


async def test_a_group_is_whoever_answers(place):
    kind = await place.define("News", *NEWS)
    group = f"pair-{place.domain}"
    async with two(place, group=group) as brokers, place.connected("bob", "", group=group) as client:
        subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
        first = client.broker
        assert first in brokers
        silence(brokers[first][0])
        await eventually(lambda: client.sessions_begun >= 2)  # with its subscription, at another
        assert client.broker != first
        await publisher.publish(score=1)
        assert [each["score"] for each in await take(subscriber, 1)] == [1]


@pytest.mark.parametrize("known", [False, True])
async def test_what_is_published_while_a_client_changes_brokers_comes_once(place, known):
    """Whether or not the other broker knows already what is published: nothing is sent before it knows all."""
    kind = await place.define("News", *NEWS)
    async with two(place) as brokers, place.connected("bob", "", among=BOTH) as client:
        subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
        first, restore = client.broker, client._restore

        async def restore_meanwhile() -> None:
            if known:
                await restore()
            await publisher.publish(score=1)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(publisher.flush(), 1)
            if not known:
                await restore()

        client._restore = restore_meanwhile
        silence(brokers[first][0])
        await eventually(lambda: client.sessions_begun >= 2)
        await publisher.publish(score=2)
        await publisher.flush()
        assert [each["score"] for each in await take(subscriber, 2)] == [1, 2]


async def test_where_no_broker_of_a_group_is_up_its_name_is_said(place):
    with pytest.raises(NoBroker, match="no broker `nobody` answers in the domain"):
        async with place.connected("ann", "", group="nobody"):
            pass


@pytest.mark.parametrize("given", [{}, {"broker": "a", "group": "b"}, {"brokers": "a"}])
async def test_whom_to_connect_to_must_be_said_in_one_way(place, given):
    with pytest.raises(ValueError, match="`broker`"):
        async with EventClient.connect(place.server.url, identity=place.key, credential=b"", **given):
            pass


async def test_what_two_brokers_publish_of_one_bundle_is_in_the_stream_once(place):
    """A publisher that was not told that its broker had published sends the same to another."""
    kind = await place.define("News", *NEWS)
    async with two(place) as brokers, place.connected("bob", "", among=BOTH) as reader:
        subscriber = await reader.subscriber(kind.name)
        async with place.connected("ann", "", among=BOTH) as writer:
            publisher = await writer.publisher(kind.name)
            service = brokers[writer.broker][0]
            send = service._bus.send
            # Everything but acknowledgements of bundles: the stream has them, the publisher does not know.
            service._door._bus = _Mute(service._door._bus)
            await publisher.publish(score=1)
            await eventually(lambda: service.broker.counts.forwarded == 1)
            silence(service)
            await asyncio.wait_for(publisher.flush(), PATIENCE)
            service._bus.send = send
            await publisher.publish(score=2)
            await publisher.flush()
            assert [each["score"] for each in await take(subscriber, 2)] == [1, 2]
            assert sum(each.broker.counts.forwarded for each, _ in brokers.values()) == 3


async def test_that_another_broker_published_what_one_could_not_is_no_gap_after_it(place):
    """A broker whose parcel is not answered finds its bundle in the stream: it may be its own parcel, or another's."""
    kind = await place.define("News", *NEWS)
    async with two(place) as brokers, place.connected("ann", "", among=BOTH) as writer:
        first, other = sorted(brokers, key=lambda name: name != writer.broker)
        service = brokers[first][0]
        async with place.connected("bob", other.split("-")[0]) as reader:
            subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
            await wanted(publisher)
            await publisher.publish(score=1)
            await publisher.flush()
            send = service._bus.send
            silence(service)
            await publisher.publish(score=2)
            await eventually(lambda: service.broker.counts.published == 2)
            await asyncio.wait_for(publisher.flush(), PATIENCE)
            assert writer.broker == other
            service._bus.send = send
            await eventually(lambda: service.broker.counts.forwarded == 2)
            async with place.connected("cid", first.split("-")[0]) as late:
                publisher = await late.publisher(kind.name)
                await publisher.publish(score=3)
                await publisher.flush()
            assert [each["score"] for each in await take(subscriber, 3)] == [1, 2, 3]
            assert subscriber.gaps == brokers[other][0].broker.counts.lost == 0


class _Mute:
    def __init__(self, bus) -> None:
        self._bus = bus

    def send(self, *args, **more) -> None: ...

    def __getattr__(self, name: str):
        return getattr(self._bus, name)
