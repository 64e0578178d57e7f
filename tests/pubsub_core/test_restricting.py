"""What policies leave of what clients ask for, on real brokers: refused, restricted, changed as policies change."""

from __future__ import annotations

import asyncio
from time import time

import pytest

from authz import Decision, Reason
from authz.spki import (
    Notice,
)
from bus.errors import BusError, StoreUnavailable
from bus.feeds.release_feed import Feed
from bus.feeds.revocations import publish_notice
from pep import Enforcer
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import Refused
from tests.pubsub_core.town import NEWS, OPEN, rule, subscriber_of, take, wanted
from tests.waiting import eventually, once_it_works


async def test_what_is_not_permitted_is_refused_and_what_is_restricted_is_restricted_silently(place):
    kind = await place.define("News", *NEWS)
    thing = f'"/types/{kind.name}"'
    await place.release(
        rule("connect", action_id="connect")
        + rule("write", "[{values: {place: Soho}}, {hidden: [score]}]", subject_id="ann", resource_id=thing)
        + rule(
            "read", "[{attributes: [headline, place]}, {filter: \"headline != 'secret'\"}]", subject_id="bob"
        )
        + rule("whole", subject_id="cid", resource_id=thing, action_id="subscribe")
    )
    await place.broker("north")
    ann, bob, cid = [await place.client(name, "north") for name in ("ann", "bob", "cid")]
    with pytest.raises(Refused, match=r"of `.*News` is not permitted"):
        await cid.publisher(kind.name)
    with pytest.raises(CallRefused, match="`score` may not be read"):
        await bob.subscriber(kind.name, "score > 1")
    theirs, whole = await bob.subscriber(kind.name), await cid.subscriber(kind.name)
    publisher = await ann.publisher(kind.name)
    for headline in ("secret", "open"):
        await publisher.publish(headline=headline, place="Leeds", score=5)
    await publisher.flush()
    assert await take(whole, 2) == [{"headline": each, "place": "Soho"} for each in ("secret", "open")]
    assert await take(theirs, 1) == [{"headline": "open", "place": "Soho"}]
    assert theirs.unread == 0
    with pytest.raises(Refused):
        await cid.restrictions(kind.name)
    (said,) = await bob.restrictions(kind.name)
    assert 'attributes headline, place; where exists headline and not headline == "secret"' in said


async def test_an_event_without_the_attribute_passes_no_negated_comparison(place):
    kind = await place.define("News", *NEWS)
    await place.release(
        rule("ann", subject_id="ann") + rule("bob", "[{filter: \"NOT place = 'Vault'\"}]", subject_id="bob")
    )
    await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    theirs = await reader.subscriber(kind.name)
    chosen = await reader.subscriber(kind.name, "NOT score > 3")
    publisher = await writer.publisher(kind.name)
    await wanted(publisher)
    for event in (
        {"headline": "kept", "place": "Vault", "score": 1},
        {"headline": "nowhere", "score": 1},
        {"headline": "unrated", "place": "Soho"},
        {"headline": "open", "place": "Soho", "score": 1},
    ):
        await publisher.publish(**event)
    await publisher.flush()
    assert [each["headline"] for each in await take(theirs, 2)] == ["unrated", "open"]
    assert [each["headline"] for each in await take(chosen, 1)] == ["open"]


async def test_generic_predicates_are_looked_at_by_the_clients_own_broker(place):
    kind = await place.define("News", *NEWS)
    even = "{predicate: multiple-of, with: {value: event.score, factor: 2}, filter: 'score >= 1 and score <= 10'}"
    await place.release(OPEN.replace("targets: {}", f"targets: {{}}, obligations: [{even}]"))
    await place.broker("north")
    south = await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    subscriber = await reader.subscriber(kind.name)
    assert "hybrid" in (await reader.restrictions(kind.name))[0]
    await place.release(
        rule("bob", f"[{even}]", subject_id="bob")
        + rule("ann", subject_id="ann")
        + rule("c", action_id="connect")
    )
    publisher = await writer.publisher(kind.name)
    await wanted(publisher)
    for score in range(20):
        await publisher.publish(score=score)
    await publisher.flush()
    assert [each["score"] for each in await take(subscriber, 5)] == [2, 4, 6, 8, 10]
    assert south.broker.counts.received == 20


async def test_an_obligation_that_is_not_understood_permits_nothing(place):
    kind = await place.define("News", *NEWS)
    await place.release(OPEN.replace("targets: {}", "targets: {}, obligations: [{watermark: yes}]"))
    await place.broker("north")
    client = await place.client("ann", "north")
    with pytest.raises(Refused):
        await client.subscriber(kind.name)


async def test_subscribing_to_a_type_brings_its_sub_types_and_downgrades_to_those_permitted(place):
    news = await place.define("News", *NEWS)
    sport = await place.define("Sport", ("club", "string"), parent=news)
    tennis = await place.define("Tennis", ("player", "string"), parent=sport)
    basic = (
        rule("connect", action_id="connect")
        + rule("ann", subject_id="ann")
        + rule("basic", subject_id="bob", resource_id=f'"/types/{tennis.name}"', action_id="subscribe")
    )
    await place.release(basic)
    await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber = await reader.subscriber(news.name)
    publishers = {kind: await writer.publisher(kind.name) for kind in (news, sport, tennis)}

    async def publish(round_: int) -> None:
        for kind, publisher in publishers.items():
            await publisher.publish(headline=f"{kind.name.rpartition('.')[2]} {round_}")
        await publishers[news].flush()

    await publish(1)
    assert await take(subscriber, 1) == [{"headline": "Tennis 1"}]
    await place.release(basic + rule("premium", subject_id="bob", action_id="subscribe"))
    await eventually(lambda: len(subscriber_of(place, reader).granted) == 3)
    await publish(2)
    assert [each["headline"] for each in await take(subscriber, 3)] == ["News 2", "Sport 2", "Tennis 2"]
    denied = rule("no", effect="deny", subject_id="bob", resource_id=f'"/types/{sport.name}"')
    await place.release(basic + rule("premium", subject_id="bob", action_id="subscribe") + denied)
    await eventually(lambda: len(subscriber_of(place, reader).granted) == 2)
    await publish(3)
    assert [each["headline"] for each in await take(subscriber, 2)] == ["News 3", "Tennis 3"]


async def test_a_newly_forbidden_event_is_not_delivered_once_the_push_is_complete(place):
    """Under load, in every interleaving that happens: what is published after the push was complete is withheld."""
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    south = await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    subscriber = await reader.subscriber(kind.name)
    publisher = await writer.publisher(kind.name)
    await wanted(publisher)
    forbidding = OPEN + rule("no", effect="deny", subject_id="bob", action_id="subscribe")
    for round_ in range(3):
        async with asyncio.TaskGroup() as group:
            busy = asyncio.Event()

            async def load(busy=busy, round_=round_) -> None:
                while not busy.is_set():
                    await publisher.publish(headline="before", score=round_)
                    await asyncio.sleep(0)

            task = group.create_task(load())
            epoch = await place.release(forbidding)
            await eventually(
                lambda epoch=epoch: south.claims.epoch >= epoch and not south.broker.holds([kind.id])
            )
            busy.set()
            await task
        await publisher.publish(headline="after", score=round_)
        await publisher.flush()
        epoch = await place.release(OPEN)
        await eventually(
            lambda epoch=epoch: south.claims.epoch >= epoch and not south.broker.holds([kind.id])
        )
        await wanted(publisher)
        await publisher.publish(headline="again", score=round_)
        await publisher.flush()
        seen = []
        while not seen or seen[-1] != {"headline": "again", "score": round_}:
            seen += await take(subscriber, 1)
        assert {"headline": "after", "score": round_} not in seen


async def test_where_the_owner_is_known_nobody_goes_without_its_capability(place, owned):
    kind, client = owned
    writer, _ = await client("ann", 'action: publish\nattributes: headline, place = "Soho"')
    reader, _ = await client("bob", "action: subscribe\nattributes: place, score")
    with pytest.raises(Refused):
        await writer.subscriber(kind.name)
    with pytest.raises(Refused):
        await (await place.client("cid", "north")).subscriber(kind.name)
    subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
    await publisher.publish(headline="h", place="Leeds", score=3)
    await publisher.flush()
    assert await take(subscriber, 1) == [{"place": "Soho"}]


async def test_all_grants_of_an_owner_count_for_a_subscriber(place, owned):
    """As for a detective with two court orders."""
    kind, client = owned
    writer, _ = await client("ann", "action: publish")
    orders = [f'action: subscribe\nattributes: place = "{each}", score' for each in ("Soho", "Leeds")]
    nonsense = 'action: subscribe\nattributes: score, place, colour = "red"'
    reader, _ = await client("bob", f"\ntype: {kind.name}\n".join((*orders, nonsense)))
    subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
    for number, town in enumerate(("Soho", "York", "Leeds")):
        await publisher.publish(headline="h", place=town, score=number)
    await publisher.flush()
    assert await take(subscriber, 2) == [{"place": "Soho", "score": 0}, {"place": "Leeds", "score": 2}]
    assert subscriber.unread == 0


async def test_a_capability_that_ends_or_is_taken_back_ends_what_it_gave(place, owned):
    kind, client = owned
    writer, _ = await client("ann", "action: publish")
    brief, _ = await client("bob", "action: subscribe", end=int(time()) + 3)
    reader, certificate = await client("cid", "action: subscribe")
    theirs, mine = await brief.subscriber(kind.name), await reader.subscriber(kind.name)
    publisher = await writer.publisher(kind.name)
    await publisher.publish(score=1)
    assert await take(theirs, 1) == await take(mine, 1) == [{"score": 1}]
    await eventually(lambda: not subscriber_of(place, brief).granted)
    assert subscriber_of(place, reader).granted
    await publish_notice(place.bus, Notice.event(place.key, certificate, int(time())))
    await eventually(lambda: not subscriber_of(place, reader).granted)
    await publisher.publish(score=2)
    await publisher.flush()
    assert theirs.unread == mine.unread == 0
    assert not publisher.interested


async def test_no_capability_counts_while_it_is_not_known_what_was_revoked(place, owned, slow_revocations):
    kind, client = owned
    reader, certificate = await client("cid", "action: subscribe")
    other, _ = await client("dan", "action: subscribe")
    (north,) = place.services
    slow_revocations.clear()
    north._bus._client._abort()
    await eventually(lambda: north._rights.doubt())
    await publish_notice(place.bus, Notice.event(place.key, certificate, int(time())))
    for each in (reader, other):
        with pytest.raises(Refused, match="what was revoked is not known yet"):
            await once_it_works(lambda each=each: each.subscriber(kind.name), BusError)
    slow_revocations.set()
    await once_it_works(lambda: other.subscriber(kind.name), Refused)
    with pytest.raises(Refused):
        await reader.subscriber(kind.name)


async def test_what_nobody_answers_is_not_granted_but_what_was_granted_goes_on(place, monkeypatch):
    kind, late = await place.define("News", *NEWS), await place.define("Late", *NEWS)
    north = await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
    answers = Enforcer.check_many

    async def nobody(self, requests, **more):
        return [Decision(False, Reason.NO_PDP) for _ in requests]

    monkeypatch.setattr(Enforcer, "check_many", nobody)
    with pytest.raises(Refused):
        await reader.subscriber(late.name)
    await north.reauthorize(north.claims.epoch)
    await publisher.publish(score=1)
    await publisher.flush()
    assert await take(subscriber, 1) == [{"score": 1}]
    await north.reauthorize(north.claims.epoch + 1)  # there are newer policies, and nobody to ask
    assert not subscriber_of(place, reader).granted
    north.claims.epoch -= 1
    monkeypatch.setattr(Enforcer, "check_many", answers)
    await eventually(lambda: subscriber_of(place, reader).granted)


async def test_a_broker_cut_off_from_the_policy_feed_delivers_nothing_until_it_hears_it_again(
    place, monkeypatch
):
    kind = await place.define("News", *NEWS)
    north = await place.broker("north", lease=1.5)
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
    look = Feed.look

    async def away(self):
        raise StoreUnavailable("it is away")

    monkeypatch.setattr(Feed, "look", away)
    await eventually(lambda: north.broker.held)
    await publisher.publish(score=1)
    await asyncio.sleep(0)
    assert subscriber.unread == 0
    monkeypatch.setattr(Feed, "look", look)
    assert await take(subscriber, 1) == [{"score": 1}]
