"""What goes between clients and brokers over a real server, and what whoever sees it all can make of it."""

from __future__ import annotations

import secrets
from time import time

import pytest

from authz import Identity
from bus import Connection
from bus.wire.envelope import pack
from bus.wire.subjects import broker as broker_subject
from pubsub_core.events.batch_signature import NONCE_BYTES
from pubsub_core.keys.channel import PUBLIC_BYTES, Channels
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.messages import CALL, Disconnect, Received, SignedCall, unpack_answer
from tests.pubsub_core.town import NEWS, take


async def said(thief, what: str, message: bytes) -> str:
    """The fault that a broker finds with what a client says on its own channel."""
    subject = broker_subject(thief.domain, thief.broker, what)
    return unpack_answer(
        thief.channel.open(await thief.bus.ask(subject, thief.channel.seal(message), 5.0))
    ).fault


async def test_what_was_recorded_is_not_opened_by_the_keys_of_both_when_they_are_stolen_later(place):
    kind = await place.define("News", *NEWS)
    service = await place.broker("north")
    heard: list[bytes] = []
    async with Connection(place.server.url) as server:
        await server.listen(">", lambda subject, reply, data, headers: heard.append(bytes(data)))
        await server.flush()
        async with place.connected("ann", "north") as client:
            subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
            await publisher.publish(score=7)
            await take(subscriber, 1)
        await server.flush()
    with_client = [data for data in heard if data[:PUBLIC_BYTES] in service._door._channels._offered]
    assert len(with_client) > 4
    thief = Channels()  # all that follows from the broker's key is here, as after any start
    for data in with_client:
        if data[:PUBLIC_BYTES] not in thief._known:
            thief.answer(data[:PUBLIC_BYTES])
        with pytest.raises(CannotOpen):
            thief.open(data)


async def test_a_session_is_of_no_use_to_whoever_learned_its_token(place):
    """He would say that the client has what it never read."""
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    ann, eve = await place.client("ann", "north"), await place.client("eve", "north")
    subscriber, publisher = await ann.subscriber(kind.name), await ann.publisher(kind.name)
    word = pack(Received(ann.session, 1_000_000))
    assert await said(eve, "received", word) == "lost"
    await publisher.publish(score=7)
    assert await take(subscriber, 1) == [{"score": 7}]


async def test_what_a_client_signed_for_one_channel_is_refused_on_another(place):
    """A broker that clients believed passes on to another what they signed for it."""
    await place.broker("north")
    ann, eve = await place.client("ann", "north"), await place.client("eve", "north")
    nonce = secrets.token_bytes(NONCE_BYTES)
    signed = SignedCall(Disconnect(), ann.broker, time(), nonce, ann.session, ann.channel.binding)
    assert await said(eve, "call", CALL.sign(signed, ann.identity)) == "refused"
    assert await said(ann, "call", CALL.sign(signed, ann.identity)) == ""


async def test_a_session_is_taken_up_on_a_new_channel_by_its_own_client_only(place):
    kind = await place.define("News", *NEWS)
    await place.broker("north")
    ann = await place.client("ann", "north")
    subscriber, before = await ann.subscriber(kind.name), (ann.session, ann.channel)
    await ann._connect()
    assert ann.session == before[0]
    assert ann.channel is not before[1]
    await (await ann.publisher(kind.name)).publish(score=1)
    assert await take(subscriber, 1) == [{"score": 1}]
    eve = await place.client("eve", "north", Identity.generate())
    eve.session = ann.session
    await eve._connect()
    assert eve.session != ann.session
