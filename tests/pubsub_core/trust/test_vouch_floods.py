"""Vouches without end, on a real server: they stop no brokers from hearing each other, and keep nobody trusted."""

from __future__ import annotations

from time import time

import pytest

from authz import Identity
from bus.wire import subjects
from bus.wire.subjects import broker_record
from pubsub_core.carriage.records import HELLO, Hello, word_record
from pubsub_core.trust.vouches import ALL, vouch, withdraw
from tests.pubsub_core.town import NEWS, take, wanted
from tests.waiting import eventually


def say(place, by: Identity, what: str, data: bytes) -> None:
    place.bus.send(broker_record(place.domain, subjects.place(by.public), what), data)


async def flood(place, by: Identity, count: int, *words: bytes) -> None:
    """Somebody publishes vouches for brokers that nobody knows, and then says hello as a broker."""
    nobody = Identity.generate().public
    for number in range(count):
        say(place, by, *word_record(vouch(nobody, [f"{number:036}"], time() + 500, by)))
        if number % 256 == 0:
            await place.bus.flush()  # the brokers, which run in this loop too, have their turn
    for word in words:
        say(place, by, *word_record(word))
    hello = Hello(f"end-of-flood-{place.domain}", place.domain, time(), 1)
    say(place, by, "hello.x", HELLO.sign(hello, by))
    await place.bus.flush()


def hears(service, name: str):
    return lambda: any(each.startswith(name) for each in service.broker.peers)


async def test_a_stranger_who_vouches_without_end_does_not_stop_brokers_from_hearing_each_other(place):
    kind = await place.define("News", *NEWS)
    north = await place.broker("north")
    await flood(place, Identity.generate(), 9_000)
    await eventually(hears(north, "end-of-flood"))
    assert len(north.web.words) < 10  # nothing of it takes room from those who count
    south = await place.broker("south")
    await eventually(hears(south, "north"))
    subscriber = await (await place.client("bob", "south")).subscriber(kind.name)
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    await wanted(publisher)
    await publisher.publish(score=1)
    assert await take(subscriber, 1) == [{"score": 1}]


async def test_a_broker_that_vouches_without_end_is_distrusted_all_the_same(place):
    await place.define("News", *NEWS)
    north = await place.broker("north")
    evil, south = Identity.generate(), Identity.generate()

    def trusted(broker: Identity) -> bool:
        return north.web.trusts(str(broker.public), "t", str(place.key.public), time())

    await flood(place, evil, 9_999, vouch(evil.public, [ALL], time() + 500, place.key, time()))
    await eventually(lambda: trusted(evil))
    say(place, place.key, *word_record(vouch(south.public, [ALL], time() + 500, place.key, time())))
    await eventually(lambda: trusted(south))
    say(place, place.key, *word_record(withdraw(evil.public, [ALL], time(), place.key)))
    await eventually(lambda: not trusted(evil))
    assert trusted(south)
    await place.broker("west")
    await eventually(hears(north, "west"))


@pytest.mark.parametrize("length", [5_000, 400_000], ids=["longer than a subject", "half a message"])
async def test_a_stranger_with_a_name_of_any_length_is_in_nobodys_way(place, length):
    """Brokers name each other in what they say, and in subjects."""
    north, south = await place.broker("north"), await place.broker("south")
    await eventually(hears(north, "south"))
    hello = Hello("x" * length, place.domain, time(), 1)
    stranger = Identity.generate()
    say(place, stranger, "hello.x", HELLO.sign(hello, stranger))
    await place.bus.flush()
    await place.broker("west")
    await eventually(lambda: hears(north, "west")() and hears(south, "west")())
    assert not hears(north, "x")()
    assert not hears(south, "x")()
