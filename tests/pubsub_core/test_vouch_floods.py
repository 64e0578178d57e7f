"""Vouches without end, on a real server: they stop no brokers from hearing each other, and keep nobody trusted."""

from __future__ import annotations

from time import time

import pytest

from authz import Identity
from bus.subjects import link_all
from pubsub_core.links import HELLO
from pubsub_core.messages import Hello
from pubsub_core.trust import ALL, vouch, withdraw
from tests.pubsub_core.town import NEWS, take, wanted
from tests.waiting import eventually

AT_ONCE = 1_500
"""As many as fit one message."""


async def flood(place, by: Identity, count: int, *words: bytes) -> None:
    """Somebody says hello as a broker, with vouches for brokers that nobody knows."""
    nobody = Identity.generate().public
    for start in range(0, count, AT_ONCE):
        some = range(start, min(start + AT_ONCE, count))
        vouches = [vouch(nobody, [f"{number:036}"], time() + 500, by) for number in some]
        hello = Hello(f"flood-{place.domain}", place.domain, time(), 1, (*words, *vouches))
        place.bus.send(link_all(place.domain, "hello"), HELLO.sign(hello, by))
        await place.bus.flush()


def hears(service, name: str):
    return lambda: any(each.startswith(name) for each in service.broker.peers)


async def test_a_stranger_who_vouches_without_end_does_not_stop_brokers_from_hearing_each_other(place):
    kind = await place.define("News", *NEWS)
    north = await place.broker("north")
    await flood(place, Identity.generate(), 3 * AT_ONCE)
    await eventually(hears(north, "flood"))
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
    place.bus.send(
        link_all(place.domain, "vouch"), vouch(south.public, [ALL], time() + 500, place.key, time())
    )
    await eventually(lambda: trusted(south))
    place.bus.send(link_all(place.domain, "vouch"), withdraw(evil.public, [ALL], time(), place.key))
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
    place.bus.send(link_all(place.domain, "hello"), HELLO.sign(hello, Identity.generate()))
    await place.bus.flush()
    await place.broker("west")
    await eventually(lambda: hears(north, "west")() and hears(south, "west")())
    assert not hears(north, "x")()
    assert [service._bus.reconnects for service in (north, south)] == [0, 0]
