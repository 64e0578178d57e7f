"""Publishers wait for subscribers that are behind and read; who does not read is not waited for."""

from __future__ import annotations

import asyncio

import pytest

from pubsub_core import GapReason
from pubsub_core.delivery import backpressure, send_window
from pubsub_core.delivery.backpressure import (
    HIGH,
    LOW,
    MAX_BEHIND_SECONDS,
    STALL_SECONDS,
    STRIDE,
    Backpressure,
    Lag,
)
from tests.pubsub_core.streams import Stream, untold
from tests.pubsub_core.town import NEWS, wanted
from tests.waiting import PATIENCE, eventually

BURST = 3_000
LIMIT = 1_500
"""So many events wait for a client here; a burst is more."""


@pytest.fixture
async def kind(place, monkeypatch):
    monkeypatch.setattr(send_window.SendWindow.__init__, "__defaults__", (64, LIMIT))
    monkeypatch.setattr("pubsub_core.client.inbox.ACKNOWLEDGE", 16)
    for name, value in {"HIGH": 128, "LOW": 64, "STRIDE": 16}.items():
        monkeypatch.setattr(backpressure, name, value)
    monkeypatch.setattr("pubsub_core.client.publisher.MAX_BUNDLE", 64)
    return await place.define("News", *NEWS)


async def burst(publisher, count: int = BURST) -> None:
    for number in range(count):
        await publisher.publish(score=number)
    await publisher.flush()


async def read_slowly(stream: Stream, count: int = BURST) -> None:
    for number in range(count):
        await stream.until(number)
        if number % 10 == 0:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("at", ["north", "south"])
async def test_a_burst_waits_for_a_subscriber_that_reads_at_any_broker(place, kind, at):
    """Nothing is missing, though it is twice as much as waits for a client."""
    await place.broker("north")
    service = place.services[0] if at == "north" else await place.broker("south")
    ann, bob = await place.client("ann", "north"), await place.client("bob", at)
    stream, publisher = Stream(await bob.subscriber(kind.name), "score"), await ann.publisher(kind.name)
    await wanted(publisher)
    (session,) = [each for each in service.broker.sessions.values() if each.token == bob.session]
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, session.send_window.waiting)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await asyncio.gather(burst(publisher), read_slowly(stream))
    watching.cancel()
    assert stream.read == list(range(BURST))
    assert most > 128, "it was behind"
    assert not service.broker.counts.gaps


async def test_a_subscriber_that_does_not_read_is_given_up_and_gets_a_gap(place, kind, monkeypatch):
    monkeypatch.setattr(backpressure, "STALL_SECONDS", 0.3)
    await place.broker("north")
    ann, bob, cid = [await place.client(name, "north") for name in ("ann", "bob", "cid")]
    lazy, keen = [Stream(await each.subscriber(kind.name), "score") for each in (bob, cid)]
    publisher = await ann.publisher(kind.name)
    await asyncio.wait_for(asyncio.gather(burst(publisher), keen.until(BURST - 1)), PATIENCE)
    assert keen.read == list(range(BURST))
    await lazy.until(BURST - 1)
    assert [gap.reason for gap in lazy.gaps] == [GapReason.SLOW_CONSUMER]
    assert not untold(lazy.read)
    assert bob.sessions_begun == 1


async def test_a_publisher_does_not_wait_for_itself(place, kind):
    await place.broker("north")
    ann = await place.client("ann", "north")
    stream, publisher = Stream(await ann.subscriber(kind.name), "score"), await ann.publisher(kind.name)
    await asyncio.wait_for(burst(publisher, LIMIT // 2), STALL_SECONDS)
    await stream.until(LIMIT // 2 - 1)
    assert not stream.gaps


async def test_who_leaves_while_publishers_wait_for_it_lets_them_go_on(place, kind):
    north = await place.broker("north")
    ann = await place.client("ann", "north")
    publisher = await ann.publisher(kind.name)
    async with place.connected("bob", "north") as bob:
        await bob.subscriber(kind.name)
        task = asyncio.create_task(burst(publisher, LIMIT))
        (session,) = [each for each in north.broker.sessions.values() if each.subscriptions]
        await eventually(lambda: session.lag.behind)
        assert not task.done()
    await asyncio.wait_for(task, STALL_SECONDS)


def test_a_client_is_behind_from_the_high_mark_to_the_low_one():
    lag = Lag()
    marks = [(HIGH, False), (HIGH + 1, True), (LOW + 1, True), (LOW, False), (LOW + 1, False)]
    assert [(waiting, lag.look(waiting, 0, 0.0)) for waiting, _ in marks] == marks


@pytest.mark.parametrize(
    ("read", "seconds"), [(STRIDE // 2, MAX_BEHIND_SECONDS), (STRIDE // 4, STALL_SECONDS), (0, STALL_SECONDS)]
)
def test_who_does_not_read_or_does_not_catch_up_is_waited_for_no_longer(read, seconds):
    lag, now, received = Lag(), 0.0, 0
    assert lag.look(HIGH + 1, received, now)
    while lag.behind:
        now, received = now + STALL_SECONDS / 2, received + read
        lag.look(HIGH + 1, received, now)
    assert seconds < now <= seconds + STALL_SECONDS
    assert not lag.look(10 * HIGH, received + STRIDE, now), "not before it has caught up"
    assert not lag.look(LOW, received, now)
    assert lag.look(HIGH + 1, received, now)


def test_what_waits_for_several_waits_for_the_last():
    pressure, done = Backpressure(), list[str]()
    pressure.wait({"a", "b"}, lambda: done.append("both"))
    pressure.wait({"b"}, lambda: (done.append("one"), pressure.clear("c"), done.append("before")))
    pressure.wait({"c"}, lambda: done.append("c"))
    pressure.clear("a")
    assert not done
    pressure.clear("b")
    assert done == ["both", "one", "before", "c"], "what is released meanwhile comes in its turn"
    pressure.clear("b")
