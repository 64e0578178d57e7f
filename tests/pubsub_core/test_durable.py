"""Durable subscriptions: they outlast clients and brokers, belong to their subject, and are shared like a queue."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bus import Connection
from bus.stores import RecordChanged, RecordStore
from bus.wire.subjects import DURABLES
from pubsub_core import DurableRefused, Refused, SessionLost
from tests.pubsub_core.test_failover import BOTH, silence, two
from tests.pubsub_core.town import NEWS, OPEN, rule, take
from tests.waiting import PATIENCE, eventually, once_it_works


@pytest.fixture
async def north(place):
    kind = await place.define("News", *NEWS)
    return kind, await place.broker("north")


async def scores(subscriber, count: int) -> list[object]:
    return [each["score"] for each in await take(subscriber, count)]


async def send(publisher, *numbers: int) -> None:
    for number in numbers:
        await publisher.publish(score=number)
    await publisher.flush()


async def test_a_client_that_comes_back_goes_on_after_what_it_acknowledged(place, north):
    kind, _ = north
    writer = await place.client("ann", "north")
    publisher = await writer.publisher(kind.name)
    async with place.connected("bob", "north") as reader:
        subscriber = await reader.subscriber(kind.name, durable="orders")
        await send(publisher, *range(10))
        assert await scores(subscriber, 4) == [0, 1, 2, 3]  # by reading the fourth, three are acknowledged
    await send(publisher, 10)
    async with place.connected("bob", "north") as reader:
        subscriber = await reader.subscriber(kind.name, durable="orders")
        assert await scores(subscriber, 8) == [3, 4, 5, 6, 7, 8, 9, 10]


async def test_what_is_acknowledged_one_by_one_does_not_come_again_and_the_rest_does(place, north):
    kind, _ = north
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    async with place.connected("bob", "north") as reader:
        subscriber = await reader.subscriber(kind.name, durable="orders", manual_ack=True)
        await send(publisher, *range(6))
        events = [await asyncio.wait_for(anext(subscriber), PATIENCE) for _ in range(6)]
        for number in (1, 4):
            await events[number].ack()
    async with place.connected("bob", "north") as reader:
        subscriber = await reader.subscriber(kind.name, durable="orders", manual_ack=True)
        assert await scores(subscriber, 4) == [0, 2, 3, 5]


async def test_what_was_published_while_nobody_read_comes_once_and_not_again_to_the_next_reader(place):
    """Such parcels are only ever read again: the broker's own consumer does not bring what nobody there wants."""
    kind = await place.define("News", *NEWS)
    await place.broker("south")
    service = await place.broker("north")
    publisher = await (await place.client("ann", "south")).publisher(kind.name)
    async with place.connected("bob", "north") as reader:
        await reader.subscriber(kind.name, durable="orders")
    for numbers in (range(10), range(10, 11), range(11, 12)):
        await eventually(lambda: not service.durables)
        await send(publisher, *numbers)
        async with place.connected("bob", "north") as reader:
            subscriber = await reader.subscriber(kind.name, durable="orders", manual_ack=True)
            for number in numbers:
                event = await asyncio.wait_for(anext(subscriber), PATIENCE)
                await event.ack()
                assert event["score"] == number
            await eventually(lambda: all(each.cursor.live for each in service.durables._hosted.values()))


async def test_it_outlasts_its_broker(place):
    """The broker is replaced by another of the same name and key, while events are published elsewhere."""
    kind = await place.define("News", *NEWS)
    await place.broker("south")
    publisher = await (await place.client("ann", "south")).publisher(kind.name)
    async with place.running("north"), place.connected("bob", "north") as reader:
        subscriber = await reader.subscriber(kind.name, "score >= 0", durable="orders")
        await send(publisher, 0, 1)
        event = await asyncio.wait_for(anext(subscriber), PATIENCE)
        await event.ack()
    await send(publisher, -1, 2, 3)
    async with place.running("north"), place.connected("bob", "north") as reader:
        subscriber = await reader.subscriber(kind.name, "score >= 0", durable="orders")
        assert await scores(subscriber, 3) == [1, 2, 3]


async def test_when_its_broker_stands_still_another_takes_it_up(place):
    kind = await place.define("News", *NEWS)
    async with (
        two(place) as brokers,
        place.connected("bob", "", among=BOTH) as reader,
        place.connected("ann", "", among=BOTH) as writer,
    ):
        publisher = await writer.publisher(kind.name)
        subscriber = await reader.subscriber(kind.name, durable="orders")
        await send(publisher, *range(50))
        assert await scores(subscriber, 20) == list(range(20))
        host = subscriber._session.broker
        silence(brokers[host][0])
        await send(publisher, *range(50, 100))
        assert await scores(subscriber, 80) == list(range(20, 100))
        assert subscriber._session.broker != host


async def test_several_share_it_as_a_queue_and_what_one_leaves_undone_another_gets(place):
    """At two brokers: whoever comes second is sent where the first is."""
    kind = await place.define("News", *NEWS)
    async with two(place), place.connected("ann", "", among=BOTH) as writer:
        publisher = await writer.publisher(kind.name)
        async with contextlib.AsyncExitStack() as stack:
            one = await stack.enter_async_context(place.connected("bob", "", among=BOTH))
            first = await one.subscriber(kind.name, durable="orders", manual_ack=True)
            async with place.connected("bob", "", among=BOTH) as other:
                second = await other.subscriber(kind.name, durable="orders", manual_ack=True)
                assert first._session.broker == second._session.broker
                await send(publisher, *range(200))
                got = [
                    await asyncio.wait_for(anext(each), PATIENCE)
                    for each in (first, second)
                    for _ in range(50)
                ]
                assert len({each["score"] for each in got}) == 100
                for each in got[:50]:
                    await each.ack()
            rest = {each["score"] for each in await take(first, 150)}
            assert rest == set(range(200)) - {each["score"] for each in got[:50]}


async def test_what_a_killed_reader_leaves_undone_another_gets_before_its_session_is_over(
    place, north, monkeypatch
):
    monkeypatch.setattr("pubsub_core.server.service.SESSION_TTL", 1e9)
    kind, service = north
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    killed, other = await place.client("bob", "north"), await place.client("bob", "north")
    first = await killed.subscriber(kind.name, durable="orders", manual_ack=True)
    second = await other.subscriber(kind.name, durable="orders")
    await send(publisher, *range(100))
    left = set(await scores(first, 20))  # the other one is given 64 at most
    await first._session.bus.close()  # all that a server sees of a process that was killed
    assert set(await scores(second, 100)) == set(range(100)) > left
    assert first._session.session not in service.broker.sessions


async def test_it_belongs_to_its_subject(place, north):
    kind, service = north
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    bob, eve = await place.client("bob", "north"), await place.client("eve", "north")
    subscriber = await bob.subscriber(kind.name, durable="orders")
    others = await eve.subscriber(kind.name, durable="orders")
    await send(publisher, 1, 2)
    assert await scores(subscriber, 2) == await scores(others, 2) == [1, 2]
    assert [each.name for each in await eve.durables()] == ["orders"]
    await others.cancel()
    await eventually(lambda: len(service.durables) == 1)
    await eve.delete_durable("orders")
    assert await eve.durables() == ()
    assert [each.name for each in await bob.durables()] == ["orders"]


async def test_listing_and_deleting(place, north):
    kind, service = north
    bob = await place.client("bob", "north")
    subscriber = await bob.subscriber(kind.name, "score > 1", durable="orders")
    (found,) = await bob.durables()
    assert (found.name, found.type, found.filter, found.broker) == (
        "orders", kind.name, "score > 1", f"north-{place.domain}",
    )  # fmt: skip
    with pytest.raises(DurableRefused, match="`orders` is being read at the broker"):
        await bob.delete_durable("orders")
    with pytest.raises(DurableRefused, match="`bills` is not there"):
        await bob.delete_durable("bills")
    with pytest.raises(DurableRefused, match=r"`orders` is of `.*News` with the filter `score > 1`"):
        await bob.subscriber(kind.name, durable="orders")
    await subscriber.cancel()
    await eventually(lambda: not service.durables)
    await bob.delete_durable("orders")
    again = await bob.subscriber(kind.name, durable="orders")
    await send(await bob.publisher(kind.name), 7)
    assert await scores(again, 1) == [7]


async def test_a_reader_that_is_far_behind_reads_from_the_stream(place, north, monkeypatch):
    """What there is no room for stays there; publishers do not wait, and nothing is missing."""
    monkeypatch.setattr("pubsub_core.delivery.cursor.LIMIT", 256)
    monkeypatch.setattr("pubsub_core.delivery.cursor.CROWDED", 64)
    monkeypatch.setattr("pubsub_core.delivery.cursor.PREFETCH", 32)
    kind, service = north
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    subscriber = await (await place.client("bob", "north")).subscriber(kind.name, durable="orders")
    await send(publisher, *range(3000))
    assert await scores(subscriber, 3000) == list(range(3000))
    assert service.durables.rereading.count > 0
    assert subscriber.gaps == 0
    await eventually(lambda: all(each.cursor.live for each in service.durables._hosted.values()))
    await send(publisher, 3000)
    assert await scores(subscriber, 1) == [3000]


async def test_rights_that_are_taken_back_stop_it_until_they_are_given_again(place, north):
    kind, service = north
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    bob = await place.client("bob", "north")
    subscriber = await bob.subscriber(kind.name, durable="orders")
    await send(publisher, 1)
    assert await scores(subscriber, 1) == [1]
    denied = rule("no", effect="deny", subject_id="bob", action_id="subscribe")
    epoch = await place.release(OPEN + denied)
    await eventually(lambda: service.claims.epoch >= epoch)
    await send(publisher, 2)
    reading = asyncio.ensure_future(anext(subscriber))
    with pytest.raises(Refused):
        await bob.subscriber(kind.name, durable="bills")
    assert not reading.done()
    await place.release(OPEN)
    assert (await asyncio.wait_for(reading, PATIENCE))["score"] == 2


async def test_acknowledging_in_a_session_that_is_over_is_refused(place, north):
    kind, service = north
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    subscriber = await (await place.client("bob", "north")).subscriber(
        kind.name, durable="orders", manual_ack=True
    )
    await send(publisher, 1)
    event = await asyncio.wait_for(anext(subscriber), PATIENCE)
    for session in tuple(service.broker.sessions.values()):
        if session.token == subscriber._session.session:
            service.broker.close(session, "enough")
    await eventually(lambda: subscriber._ended)
    with pytest.raises(SessionLost, match="enough"):
        await event.ack()


async def test_what_is_forbidden_while_a_durable_subscription_is_taken_up_is_not_granted(
    place, north, monkeypatch
):
    kind, service = north
    reader = await place.client("bob", "north")
    take_up = service.durables.take_up

    async def slowly(*asked):
        epoch = await place.release(OPEN + rule("no", effect="deny", subject_id="bob", action_id="subscribe"))
        await eventually(lambda: service.claims.epoch >= epoch and not service.broker.holds([kind.id]))
        return await take_up(*asked)

    monkeypatch.setattr(service.durables, "take_up", slowly)
    with pytest.raises(Refused):
        await reader.subscriber(kind.name, durable="orders")
    assert not any(each.subscriptions for each in service.broker.sessions.values())


async def test_one_whose_record_was_spoilt_is_refused_and_others_are_not(place, north):
    """Whoever may carry events of a domain may write there."""
    kind, _ = north
    async with place.connected("bob", "north") as reader:
        await (await reader.subscriber(kind.name, durable="orders")).cancel()
        async with Connection(place.server.url) as bus:
            store = RecordStore(bus, DURABLES)

            async def spoil() -> None:
                (found,) = {each.name for each in await store.since(0) if place.domain in each.name}
                await store.write(found, b"\x91" * 3000 + b"\xc0", (await store.get(found)).number)

            await once_it_works(spoil, RecordChanged)
        await (await reader.subscriber(kind.name, durable="invoices")).cancel()
        assert [each.name for each in await reader.durables()] == ["invoices"]
        with pytest.raises(DurableRefused, match="cannot be read"):
            await reader.subscriber(kind.name, durable="orders")
        await reader.delete_durable("orders")
        await reader.subscriber(kind.name, durable="orders")
