"""A client asks what could come of a subscription, and how far interest extends, before it subscribes."""

from __future__ import annotations

import pytest

from pubsub_core.client.client import CallRefused
from pubsub_core.errors import Refused
from tests.pubsub_core.town import NEWS, rule, wanted
from tests.waiting import eventually


async def test_it_is_told_whether_anything_can_come_of_a_subscription_and_whether_all_of_it(place):
    news = await place.define("News", *NEWS)
    sport = await place.define("Sport", ("club", "string"), parent=news)
    await place.release(
        rule("ann", subject_id="ann")
        + rule("connect", action_id="connect")
        + rule("inspect", action_id="inspect")
        + rule(
            "read",
            '[{filter: "score > 5"}, {hidden: [place]}]',
            subject_id="bob",
            action_id="subscribe",
        )
        + rule(
            "no", effect="deny", subject_id="bob", resource_id=f'"/types/{sport.name}"', action_id="subscribe"
        )
    )
    await place.broker("north")
    bob = await place.client("bob", "north")
    some = await bob.extent(news.name)
    assert (some.satisfiable, some.complete) == (True, False)
    assert some.missing == (f"{sport.name}: not permitted",)
    assert not (await bob.extent(news.name, "score < 3")).satisfiable
    assert "what restricts it" in (await bob.extent(news.name, "score < 3")).missing[0]
    assert "may not be read" in (await bob.extent(news.name, "place = 'Soho'")).missing[0]
    ann = await place.client("ann", "north")
    whole = await ann.extent(news.name, "score > 7")
    assert (whole.satisfiable, whole.complete, whole.missing) == (True, True, ())
    with pytest.raises(CallRefused, match="colour"):
        await bob.extent(news.name, "colour = 'red'")


async def test_interest_is_counted_here_and_at_other_brokers(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    publisher = await writer.publisher(kind.name)
    found = await writer.extent(kind.name)
    assert (found.brokers, found.subscriptions, found.publishers) == (0, 0, 1)
    await reader.subscriber(kind.name)
    await writer.subscriber(kind.name, "score > 1")
    await wanted(publisher)
    north = place.services[0].broker
    await eventually(lambda: any(kind.id in each.wants for each in north.peers.values()))
    found = await writer.extent(kind.name)
    assert (found.brokers, found.subscriptions, found.publishers) == (1, 1, 1)


async def test_whoever_may_not_know_restrictions_is_not_told_by_asking_what_could_come(place):
    kind = await place.define("News", *NEWS)
    await place.release(rule("all", subject_id="bob", action_id="subscribe") + rule("c", action_id="connect"))
    await place.broker("north")
    bob = await place.client("bob", "north")
    with pytest.raises(Refused):
        await bob.extent(kind.name)
