"""What cannot be published is refused by `publish()` or named by `flush()`, and is in the way of nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from time import time

import pytest
from msgspec.structs import replace

from pubsub_core.access.enforcement import Enforcement
from pubsub_core.errors import InvalidEvent, KeysAwaited
from pubsub_core.events.event import MAX_EVENT_BYTES
from tests.pubsub_core.pair import KIND, Pair
from tests.pubsub_core.town import NEWS, cut, rule, take
from tests.waiting import PATIENCE


@pytest.fixture
async def news(place):
    """A publisher and a subscriber of one broker."""
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    ann, bob = await place.client("ann", "north"), await place.client("bob", "north")
    return await ann.publisher(kind.name), await bob.subscriber(kind.name)


async def flushed(publisher) -> None:
    await asyncio.wait_for(publisher.flush(), PATIENCE)


@pytest.mark.parametrize("size", [MAX_EVENT_BYTES, 600_000, 2_000_000])
async def test_an_event_that_is_too_large_is_refused_at_once_and_the_others_arrive(news, size):
    publisher, events = news
    await publisher.publish(score=1)
    with pytest.raises(InvalidEvent, match=f"`event` must have at most {MAX_EVENT_BYTES} bytes, not "):
        await publisher.publish(headline="x" * size)
    await publisher.publish(score=2)
    await flushed(publisher)
    assert await take(events, 2) == [{"score": 1}, {"score": 2}]


async def test_an_event_that_the_publishers_own_restriction_excludes_is_named_by_flush(place):
    kind = await place.define("News", *NEWS)
    await place.release(
        rule("connect", action_id="connect")
        + rule("write", "[{filter: \"place = 'Soho'\"}]", subject_id="ann")
        + rule("read", subject_id="bob")
    )
    await place.broker("north")
    ann, bob = await place.client("ann", "north"), await place.client("bob", "north")
    publisher, events = await ann.publisher(kind.name), await bob.subscriber(kind.name)
    for town in ("Leeds", "Soho"):
        await publisher.publish(place=town)
    with pytest.raises(InvalidEvent, match="`event` may not be published: a restriction excludes it"):
        await flushed(publisher)
    assert await take(events, 1) == [{"place": "Soho"}]
    await publisher.publish(place="Soho")
    await flushed(publisher)


async def test_a_broker_without_the_keys_of_a_sealed_type_says_so_to_its_publishers(place, caplog):
    kind = await place.define("News", *NEWS)
    await place.broker("north", sealed={kind.name: b"no manager is there to read it"})
    publisher = await (await place.client("ann", "north")).publisher(kind.name)

    async def publish_on() -> None:
        while True:
            await publisher.publish(score=1)
            await asyncio.sleep(0)

    with pytest.raises(KeysAwaited, match="holds no key"):
        await asyncio.wait_for(publish_on(), PATIENCE)
    with contextlib.suppress(KeysAwaited):  # what was on its way when the first was refused is refused, too
        await publisher.publish(score=0)
    with pytest.raises(KeysAwaited, match="holds no key"):
        await publish_and_flush(publisher)
    assert "not published: `event` cannot be published here" in caplog.text


async def publish_and_flush(publisher) -> None:
    await publisher.publish(score=0)
    await flushed(publisher)


async def test_a_bundle_that_is_refused_as_a_whole_is_in_the_way_of_no_other(news, monkeypatch):
    publisher, events = news
    with monkeypatch.context() as patched:
        patched.setattr("pubsub_core.client.publisher.time", lambda: time() - 40)
        await publisher.publish(score=1)
        with pytest.raises(InvalidEvent, match="clock"):
            await flushed(publisher)
    await publisher.publish(score=2)
    await flushed(publisher)
    assert await take(events, 1) == [{"score": 2}]


async def test_what_waited_for_long_is_signed_anew_when_it_is_sent_again(news, monkeypatch):
    publisher, events = news
    cut(publisher._client)
    with monkeypatch.context() as patched:
        patched.setattr("pubsub_core.client.publisher.time", lambda: time() - 40)
        await publisher.publish(score=1)
        publisher._outgoing.hurry()
    await flushed(publisher)
    assert await take(events, 1) == [{"score": 1}]


async def test_a_copy_that_waited_too_long_is_in_the_way_of_no_other_copy(news, monkeypatch):
    """A broker that was frozen finds both: what it does not believe, and the same signed anew."""
    publisher, events = news
    with monkeypatch.context() as patched:
        patched.setattr("pubsub_core.client.publisher.time", lambda: time() - 40)
        await publisher.publish(score=1)
        publisher._outgoing.hurry()
    publisher._outgoing.resend()
    await publisher.publish(score=2)
    await flushed(publisher)
    await publisher.publish(score=3)
    await flushed(publisher)
    assert await take(events, 3) == [{"score": 1}, {"score": 2}, {"score": 3}]


def test_what_a_rule_makes_too_large_to_be_sent_is_named_and_the_others_arrive(monkeypatch):
    pair = Pair()
    pair.subscribe()
    plate = next(each.id for each in KIND.attributes if each.name == "numberplate")

    def transform(self, event, now):
        return (replace(event, attributes={plate: "x" * 4 * event.attributes[plate].count("x")}),)

    monkeypatch.setattr(Enforcement, "transform", transform)
    granted = pair.session.adverts[KIND.id][KIND.id]
    granted.judges, granted.free = (object(),), False
    taken = pair.publish(pair.bundle({"numberplate": "x" * 60_000}, {"numberplate": "x"}))
    assert [(place, attribute) for place, attribute, _ in taken.refused] == [(0, "event")]
    assert "is made into one of 240" in taken.refused[0][2]
    pair.carry()
    assert pair.seen() == [(1, {"numberplate": "xxxx"})]


def test_what_was_refused_is_named_again_to_whom_the_answer_did_not_reach():
    pair = Pair()
    bundle = pair.bundle({"speed": "fast"})
    assert pair.publish(bundle) == pair.publish(bundle)
    assert pair.publish(bundle).refused
