"""A release holds what it may touch, and nothing else, until that was asked anew."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from bus.errors import StoreUnavailable
from bus.feeds.release_feed import Feed
from pep import Enforcer
from pubsub_core.errors import Refused
from pubsub_core.server.policy_watch_service import PolicyWatch
from tests.pubsub_core.town import NEWS, OPEN, rule, take, wanted
from tests.waiting import eventually


class Pdps(asyncio.Event):
    """PDPs answer brokers nothing while this is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        """By policies of which epoch, at least, each question is to be answered."""
        self.set()


@pytest.fixture
def pdps(monkeypatch) -> Pdps:
    answering, check_many = Pdps(), Enforcer.check_many

    async def wait(self, requests, *, at_least=0, **options):
        answering.asked.append(at_least)
        await answering.wait()
        return await check_many(self, requests, at_least=at_least, **options)

    monkeypatch.setattr(Enforcer, "check_many", wait)
    return answering


def forbidding(kind) -> str:
    return OPEN + rule("no", effect="deny", subject_id="bob", resource_id=f'"/types/{kind.name}"')


async def test_a_type_that_a_release_does_not_touch_is_delivered_while_another_is_asked_anew(place, pdps):
    touched, other = await place.define("Touched", *NEWS), await place.define("Other", *NEWS)
    await place.broker("north")
    south = await place.broker("south")
    ann, eve, bob, cid = [
        await place.client(name, at)
        for name, at in (("ann", "north"), ("eve", "north"), ("bob", "south"), ("cid", "south"))
    ]
    theirs, others = await bob.subscriber(touched.name), await cid.subscriber(other.name)
    publishers = [await ann.publisher(touched.name), await eve.publisher(other.name)]
    for each in publishers:
        await wanted(each)
    pdps.clear()
    epoch = await place.release(forbidding(touched))
    await eventually(lambda: south.broker.holds([touched.id]))
    assert not south.broker.held
    assert not south.broker.holds([other.id])
    for each in publishers:
        await each.publish(score=1)
    assert await take(others, 1) == [{"score": 1}]
    assert theirs.unread == 0
    pdps.set()
    await eventually(lambda: south.claims.epoch >= epoch and not south.broker.holds([touched.id]))
    again = await cid.subscriber(touched.name)
    await wanted(publishers[0])
    await publishers[0].publish(score=2)
    assert {"score": 2} in await take(again, 1)
    assert theirs.unread == 0, "what came while it was asked about is judged by the new release"


async def test_what_a_release_permits_is_delivered_although_it_came_while_that_was_asked(place, pdps):
    kind = await place.define("Touched", *NEWS)
    await place.release(OPEN + rule("some", '[{filter: "score > 5"}]', subject_id="bob"))
    await place.broker("north")
    south = await place.broker("south")
    ann, bob = await place.client("ann", "north"), await place.client("bob", "south")
    theirs, publisher = await bob.subscriber(kind.name), await ann.publisher(kind.name)
    await wanted(publisher)
    pdps.clear()
    await place.release(OPEN + rule("some", '[{filter: "score > 1"}]', subject_id="bob"))
    await eventually(lambda: south.broker.holds([kind.id]))
    received = south.broker.counts.received
    for score in (1, 2, 7):
        await publisher.publish(score=score)
    await eventually(lambda: south.broker.counts.received == received + 3 or south.broker.held)
    pdps.set()
    assert await take(theirs, 2) == [{"score": 2}, {"score": 7}]


async def test_whoever_subscribes_while_a_release_is_known_and_not_in_force_is_granted_by_it(
    place, pdps, monkeypatch
):
    touched, kind = await place.define("Touched", *NEWS), await place.define("Late", *NEWS)
    south = await place.broker("south")
    bob, eve = await place.client("bob", "south"), await place.client("eve", "south")
    await eve.subscriber(touched.name)
    pdps.clear()
    apply, known = PolicyWatch.apply, asyncio.Event()

    async def wait(self, *release):
        await known.wait()
        await apply(self, *release)

    monkeypatch.setattr(PolicyWatch, "apply", wait)
    epoch = await place.release(forbidding(touched))
    await eventually(lambda: south.broker.holds([touched.id]))
    assert south.claims.epoch < epoch
    pdps.asked.clear()
    late = asyncio.create_task(bob.subscriber(touched.name))
    free = asyncio.create_task(bob.subscriber(kind.name))
    await eventually(lambda: len(pdps.asked) == 2)
    assert set(pdps.asked) == {epoch}
    pdps.set()
    with pytest.raises(Refused, match="not permitted"):
        await late
    await free
    known.set()


async def test_a_release_that_may_touch_anything_holds_everything(place, pdps):
    kind = await place.define("News", *NEWS)
    south = await place.broker("south")
    bob = await place.client("bob", "south")
    subscriber = await bob.subscriber(kind.name)
    publisher = await (await place.client("ann", "south")).publisher(kind.name)
    pdps.clear()
    await place.release(OPEN + rule("more"))  # which concerns fluents, too
    await eventually(lambda: south.broker.held)
    await publisher.publish(score=1)
    await asyncio.sleep(0)
    assert subscriber.unread == 0
    pdps.set()
    assert await take(subscriber, 1) == [{"score": 1}]


@pytest.fixture
async def asking(place, pdps):
    """A broker with a short lease that asks anew about one type, and is not answered; and readers of another type."""
    touched, other = await place.define("Touched", *NEWS), await place.define("Other", *NEWS)
    south = await place.broker("south", lease=1.0)
    bob, cid = await place.client("bob", "south"), await place.client("cid", "south")
    await bob.subscriber(touched.name)
    subscriber = await cid.subscriber(other.name)
    publisher = await (await place.client("eve", "south")).publisher(other.name)
    pdps.clear()
    await place.release(forbidding(touched))
    await eventually(lambda: south.broker.holds([touched.id]) and pdps.asked)
    yield south, publisher, subscriber
    pdps.set()


async def test_the_lease_is_renewed_while_a_release_is_brought_into_force(asking):
    south, publisher, subscriber = asking
    begun = monotonic()
    await eventually(lambda: south.following._confirmed_at > begun + 1.5)
    assert not south.broker.held
    await publisher.publish(score=1)
    assert await take(subscriber, 1) == [{"score": 1}]


async def test_a_broker_that_is_cut_off_while_it_asks_anew_delivers_nothing(asking, monkeypatch):
    south, publisher, subscriber = asking

    async def look(self):
        raise StoreUnavailable("it does not answer")

    with monkeypatch.context() as cut:
        cut.setattr(Feed, "look", look)
        await eventually(lambda: south.broker.held)
        await publisher.publish(score=1)
        await asyncio.sleep(0)
        assert subscriber.unread == 0
    assert await take(subscriber, 1) == [{"score": 1}]
