"""A broker whose vouch was not heard is looked up before its parcels are passed over."""

from __future__ import annotations

import pytest

from authz import Identity
from bus import NatsServer
from pep import UNVERIFIED
from pubsub_core.carriage.unknown_brokers import LOOK_SECONDS, MOST_LOOKS, NotVouched, UnknownBrokers
from tests.pubsub_core.town import NEWS, take, town
from tests.waiting import eventually


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_store_is_looked_at_once_in_a_while_and_for_a_few_only():
    clock = Clock()
    newcomers = UnknownBrokers(clock)
    for number in range(MOST_LOOKS):
        with pytest.raises(NotVouched):
            newcomers.meet(f"key {number}", "type")
    newcomers.meet("key 0", "type")
    newcomers.meet("one more", "type")
    clock.now += LOOK_SECONDS
    with pytest.raises(NotVouched):
        newcomers.meet("key 0", "type")


@pytest.fixture
async def place(tmp_path):
    """On a server of its own: what other towns have left on a shared one counts as untrusted too."""
    async with NatsServer(jetstream=True) as server, town(server, tmp_path) as place:
        yield place


def deafen(service) -> None:
    """Have a broker miss every vouch that is said from now on."""
    presence = service.broker.presence
    original = presence.hear

    def hear(subject: str, data: bytes, stored: bool = False) -> None:
        if stored or ".word." not in subject:
            original(subject, data, stored)

    presence.hear = hear


@pytest.mark.parametrize("options", [{}, {"durable": "inbox"}], ids=["live", "durable"])
async def test_events_of_a_broker_whose_vouch_was_missed_are_delivered(place, options):
    kind = await place.define("news", *NEWS)
    south = await place.broker("south")
    reader = await place.client("reader", "south")
    subscriber = await reader.subscriber(kind.name, **options)
    deafen(south)
    identity = Identity.generate()
    await place.broker("north", identity=identity)
    writer = await place.client("writer", "north")
    publisher = await writer.publisher(kind.name)
    await publisher.publish(headline="new here")
    await publisher.flush()
    assert (await take(subscriber, 1))[0]["headline"] == "new here"
    assert south.broker.presence.trusts(str(identity.public), kind.id)
    assert not south.broker.counts.untrusted


async def test_events_of_a_broker_that_nobody_vouches_for_are_passed_over(place):
    kind = await place.define("news", *NEWS)
    south = await place.broker("south")
    reader = await place.client("reader", "south")
    subscriber = await reader.subscriber(kind.name)
    stranger = await place.broker("north", vouches=())
    stranger.broker.presence.trusts = lambda *_: True
    writer = await place.client("writer", "north", trust=UNVERIFIED)
    here = await place.client("here", "south")
    publisher = await writer.publisher(kind.name)
    await publisher.publish(headline="forged")
    await publisher.flush()
    await eventually(lambda: south.broker.counts.untrusted)
    own = await here.publisher(kind.name)
    await own.publish(headline="ours")
    assert (await take(subscriber, 1))[0]["headline"] == "ours"
