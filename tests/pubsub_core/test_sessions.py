"""Sessions on real brokers: they outlast connections, and end with clients that are gone, idle or not trusted."""

from __future__ import annotations

import asyncio
from time import time

import msgspec
import pytest
from msgspec.structs import replace

from authz import Identity
from bus.errors import ReplyTimeout
from pubsub_core.client.client import EventClient
from pubsub_core.errors import NoBroker, Refused, SessionLost, UnknownType
from pubsub_core.events.event import Event, encode
from pubsub_core.events.gap import GapReason
from pubsub_core.messages import Inspect, Subscribe
from pubsub_core.trust.credential import Credential, issue
from tests.pubsub_core.town import NEWS, cut, take, wanted
from tests.waiting import PATIENCE, eventually


async def test_a_client_that_lost_its_connection_goes_on_where_it_was(place, own_server):
    """Neither lost nor delivered twice, in either direction, though the connection ends again and again."""
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber = await reader.subscriber(kind.name)
    publisher = await writer.publisher(kind.name)

    async def publish() -> None:
        for number in range(3000):
            await publisher.publish(score=number)
            if number % 500 == 250:
                cut(reader)
            if number % 700 == 600:
                cut(writer)
            if number % 100 == 0:
                await asyncio.sleep(0.001)
        await publisher.flush()

    task = asyncio.create_task(publish())
    assert [each["score"] for each in await take(subscriber, 3000)] == list(range(3000))
    await task
    assert reader.sessions_begun == writer.sessions_begun == 1
    assert reader.bus.reconnects >= 1


async def test_whoever_looks_for_a_broker_that_is_not_up_is_told_which(place):
    with pytest.raises(NoBroker, match=f"no broker `south-{place.domain}` answers in the domain") as refused:
        await place.client("ann", "south")
    assert refused.value.domain == place.domain


async def test_events_wait_for_company_while_others_are_on_their_way(place):
    """While the broker has said nothing of two bundles, what else is published comes in one, in its turn."""
    kind = await place.define("News", *NEWS)
    broker = (await place.broker("north")).broker
    client = await place.client("ann", "north")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    broker.hold()
    for number in range(20):
        await publisher.publish(score=number)
        await asyncio.sleep(0)
    broker.release()
    assert [each["score"] for each in await take(subscriber, 20)] == list(range(20))
    (session,) = broker.sessions.values()
    assert session.published == 3


async def test_what_waits_for_company_is_sent_when_its_client_leaves(place, monkeypatch):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    subscriber = await (await place.client("bob", "north")).subscriber(kind.name)
    async with place.connected("ann", "north") as writer:
        publisher = await writer.publisher(kind.name)
        await publisher.publish(score=1)
        await publisher.flush()
        monkeypatch.setattr("pubsub_core.client.publisher.EAGER", 0)
        await publisher.publish(score=2)
    assert [each["score"] for each in await take(subscriber, 2)] == [1, 2]


async def test_events_between_brokers_survive_lost_connections(place):
    """Neither lost nor delivered twice, though the brokers' own connections end again and again."""
    kind = await place.define("News", *NEWS)
    north, south = await place.broker("north"), await place.broker("south")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "south")
    subscriber = await reader.subscriber(kind.name)
    publisher = await writer.publisher(kind.name)
    await wanted(publisher)

    async def publish() -> None:
        for number in range(3000):
            await publisher.publish(score=number)
            if number % 700 == 350:
                south._bus._client._abort()
            if number % 900 == 600:
                north._bus._client._abort()
            if number % 50 == 0:
                await asyncio.sleep(0.001)
        await publisher.flush()

    task = asyncio.create_task(publish())
    assert [each["score"] for each in await take(subscriber, 3000)] == list(range(3000))
    await task


async def test_a_call_in_a_session_that_the_broker_has_forgotten_is_made_in_a_new_one(place):
    kind = await place.define("News", *NEWS)
    north = await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    before = await reader.subscriber(kind.name)
    for session in tuple(north.broker.sessions.values()):
        north.broker.close(session)  # without a word
    after = await reader.subscriber(kind.name, "score > 1")
    publisher = await writer.publisher(kind.name)
    for number in range(4):
        await publisher.publish(score=number)
    await publisher.flush()
    assert (await anext(before)).reason is GapReason.SESSION
    assert [each["score"] for each in await take(before, 4)] == [0, 1, 2, 3]
    assert [each["score"] for each in await take(after, 2)] == [2, 3]


async def test_a_call_that_was_lost_with_the_connection_is_made_again(place, own_server, monkeypatch):
    """As after a client stood still: the server has closed the connection, and what is written to it is lost."""
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    client = await place.client("ann", "north")
    monkeypatch.setattr("pubsub_core.client.session.CALL_SECONDS", 1)
    send, lost = client.bus.send, []

    def send_or_lose(subject: str, *more: object) -> None:
        if subject.endswith(".call") and not lost:
            lost.append(subject)
            cut(client)
        else:
            send(subject, *more)

    monkeypatch.setattr(client.bus, "send", send_or_lose)
    assert (await client.subscriber(kind.name)).name == kind.name
    assert lost
    assert client.sessions_begun == 1


async def test_a_session_the_broker_has_forgotten_begins_anew(place, monkeypatch):
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 0.05)
    kind = await place.define("News", *NEWS)
    identity = Identity.generate()
    async with place.running("north", identity=identity):
        reader = await place.client("bob", "north")
        writer = await place.client("ann", "north")
        subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
        await publisher.publish(score=1)
        assert await take(subscriber, 1) == [{"score": 1}]
    async with place.running("north", identity=identity):
        await eventually(lambda: reader.sessions_begun == writer.sessions_begun == 2)
        await eventually(lambda: publisher.interested)
        await publisher.publish(score=2)
        await publisher.flush()
        assert (await anext(subscriber)).reason is GapReason.SESSION
        assert await take(subscriber, 1) == [{"score": 2}]


@pytest.mark.parametrize(
    "problem",
    [ReplyTimeout("call", 5.0), UnknownType("News"), RuntimeError("out of luck")],
    ids=["a broker that is too busy", "one that does not know the type yet", "a fault of the client"],
)
async def test_a_new_session_that_was_not_told_of_all_subscriptions_is_followed_by_another(
    place, monkeypatch, problem
):
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 0.05)
    kind = await place.define("News", *NEWS)
    north = await place.broker("north")
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber, publisher = await reader.subscriber(kind.name), await writer.publisher(kind.name)
    call, lost = reader._call, []

    async def lose_one(asked, met=None):
        if isinstance(asked, Subscribe) and not lost:
            lost.append(asked)
            raise problem
        return await call(asked, met)

    monkeypatch.setattr(reader, "_call", lose_one)
    north.broker.close(north.broker.sessions[reader.session])
    await eventually(lambda: lost and reader.sessions_begun == 2)
    await publisher.publish(score=1)
    await publisher.flush()
    assert (await anext(subscriber)).reason is GapReason.SESSION
    assert await take(subscriber, 1) == [{"score": 1}]


async def test_a_session_of_which_nothing_is_heard_ends_and_its_client_begins_another(place, monkeypatch):
    monkeypatch.setattr("pubsub_core.server.service.SESSION_TTL", 0.5)
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 3.0)
    kind = await place.define("News", *NEWS)
    service = await place.broker("north")
    client = await place.client("bob", "north")
    subscriber = await client.subscriber(kind.name)
    await eventually(lambda: not service.broker.sessions)
    assert (await asyncio.wait_for(anext(subscriber), PATIENCE)).reason is GapReason.SESSION
    await eventually(lambda: client.sessions_begun == 2)


async def test_a_session_ends_with_its_credential(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    client = await place.client("bob", "north", lasts=2.0)
    subscriber = await client.subscriber(kind.name)
    with pytest.raises(SessionLost, match="run out"):
        await asyncio.wait_for(anext(subscriber), PATIENCE)


async def test_a_stranger_a_thief_and_whoever_pretends_are_refused(place):
    await place.define("News", *NEWS)
    await place.broker("north")
    stranger = town_of_its_own = Identity.generate()
    mine = place.key
    place.key = town_of_its_own  # a credential from nobody who is trusted
    with pytest.raises(Refused, match="not trusted"):
        await place.client("ann", "north", stranger)
    place.key = mine
    client = await place.client("ann", "north")
    client.identity = (
        Identity.generate()
    )  # somebody who has the session's name and the credential, not the key
    with pytest.raises(SessionLost, match=r"^the session is over: the broker does not know it"):
        await client._call(Inspect("x.Y"))
    with pytest.raises(Refused):
        await client.subscriber("x.Y")


async def test_what_a_domain_signs_about_a_client_of_another_does_not_count(place):
    """Both domains are trusted at the broker, each with its own clients."""
    ccs, smith = Identity.generate(), Identity.generate()
    await place.broker("north", clients={place.domain: {place.key.public}, "ccs": {ccs.public}})

    def connected(domain: str, by: Identity):
        given = Credential(str(smith.public), "detective-smith", domain, time() + 1000)
        return EventClient.connect(
            place.server.url,
            broker=f"north-{place.domain}",
            domain=place.domain,
            identity=smith,
            credential=issue(given, by),
        )

    async with connected(place.domain, place.key), connected("ccs", ccs):
        pass
    for domain, by in ((place.domain, ccs), ("ccs", place.key), ("nowhere", ccs)):
        with pytest.raises(Refused, match=rf"credential of the domain `{domain}` is signed by `{by.public}`"):
            async with connected(domain, by):
                pytest.fail("it was taken for a client of that domain")


@pytest.mark.parametrize("inbox", ["_INBOX.x.1", "af.link.default.all.hello", "$KV.authfabric-types.x", ""])
async def test_a_client_that_wants_its_mail_elsewhere_is_refused(place, inbox):
    await place.broker("north")
    client = await place.client("ann", "north")
    client._mailbox = inbox
    with pytest.raises(Refused, match="no place for a client's mail"):
        await client._connect()


async def test_in_place_of_an_event_that_cannot_be_read_there_is_a_gap_and_reading_goes_on(place):
    """A broker elsewhere that is trusted with the type may send what does not fit it."""
    kind = await place.define("News", *NEWS)
    service = await place.broker("north")
    bob = await place.client("bob", "north")
    subscriber = await bob.subscriber(kind.name)
    score = next(each.id for each in kind.attributes if each.name == "score")
    good = Event(kind.id, kind.version, bob.identity.public.raw, 1.0, 1, {score: 7})
    bad = [replace(good, version="0" * 32, sequence=2), replace(good, publisher=b"nobody")]
    service.broker._deliver([(msgspec.Raw(encode(each)), each) for each in (*bad, good)])
    assert [(await anext(subscriber)).reason for _ in bad] == [GapReason.UNREADABLE] * 2
    assert await take(subscriber, 1) == [{"score": 7}]
