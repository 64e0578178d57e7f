"""Failures as users meet them: each says what to do, and the broker counts what it refuses, by why."""

from __future__ import annotations

from time import time

import pytest
from prometheus_client import CollectorRegistry

from authz import Identity
from pubsub_core.client import CallRefused, EventClient
from pubsub_core.errors import CredentialRefused, InvalidEvent, KeysAwaited, NoBroker, UnknownType
from pubsub_core.events.event import MAX_EVENT_BYTES
from pubsub_core.server.metrics import BrokerMetrics
from pubsub_core.trust.credential import Credential, issue
from tests.pubsub_core.town import NEWS, rule
from tests.waiting import eventually


def credential(place, key: Identity, by: Identity | None = None, lasts: float = 1000.0) -> bytes:
    given = Credential(str(key.public), "ann", place.domain, time() + lasts)
    return issue(given, by or place.key)


def connecting(place, identity: Identity, shown: bytes, broker: str = "north"):
    name = f"{broker}-{place.domain}"
    return EventClient.connect(
        place.server.url, broker=name, domain=place.domain, identity=identity, credential=shown
    )


def metric(service, name: str, **labels: str) -> float:
    registry = CollectorRegistry()
    registry.register(BrokerMetrics(service))
    return registry.get_sample_value(f"authfabric_broker_{name}", labels)


def refused(service, reason: str) -> float:
    return metric(service, "calls_refused_total", reason=reason)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda place, me: b"", "is empty: have your domain issue another"),
        (lambda place, me: credential(place, me)[:-1] + b"\0", "is none, or was altered: have your domain"),
        (lambda place, me: credential(place, Identity.generate()), "use the key that it was issued for"),
        (lambda place, me: credential(place, me, lasts=-5.0), "has run out at .*: have your domain issue"),
    ],
)
async def test_a_credential_that_cannot_do_is_told_apart_before_anybody_is_asked(place, made, said):
    me = Identity.generate()
    with pytest.raises(CredentialRefused, match=said):
        async with connecting(place, me, made(place, me)):
            pass


async def test_a_credential_of_a_stranger_is_refused_with_the_option_that_names_signers(place):
    north, me = await place.broker("north"), Identity.generate()
    shown = credential(place, me, by=Identity.generate())
    with pytest.raises(CallRefused, match=f"broker serve --clients {place.domain}=KEY"):
        async with connecting(place, me, shown):
            pass
    assert refused(north, "credential") == 1


async def test_what_a_broker_refuses_is_counted_by_why(place):
    await place.define("News", *NEWS)
    north, me = await place.broker("north"), Identity.generate()
    async with connecting(place, me, credential(place, me)) as client:
        with pytest.raises(UnknownType, match=r"there is no event type `Nowse` here"):
            await client.subscriber("Nowse")
        with pytest.raises(CallRefused):
            await client.subscriber(f"{place.domain}.News", "headline = 1")
        assert refused(north, "type") == 1
        assert refused(north, "request") == 1


async def test_a_client_says_once_that_its_broker_is_away_and_once_that_it_is_back(
    place, monkeypatch, caplog
):
    monkeypatch.setattr("pubsub_core.client.keep_alive.KEEPALIVE_SECONDS", 0.05)
    identity = Identity.generate()
    async with place.running("north", identity=identity):
        client = await place.client("ann", "north")
    await eventually(lambda: "events wait until it is back" in caplog.text)
    async with place.running("north", identity=identity):
        await eventually(lambda: "answers again" in caplog.text)
        assert client.sessions_begun == 2
    assert caplog.text.count("events wait until it is back") == 1


async def test_a_broker_that_is_not_there_is_named_with_what_to_do(place):
    me = Identity.generate()
    with pytest.raises(NoBroker, match=r"no broker `south-.*` answers .*: start it"):
        async with connecting(place, me, credential(place, me), "south"):
            pass


async def test_without_a_key_manager_the_event_is_refused_the_log_says_it_once_and_the_broker_counts(
    place, caplog
):
    kind = await place.define("News", *NEWS)
    north = await place.broker("north", sealed={kind.name: b"nobody gives keys for it"})
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    for _ in range(3):
        await publisher.publish(score=1)
        with pytest.raises(KeysAwaited, match="see that the type's key manager runs") as caught:
            await publisher.flush()
        assert caught.value.attribute == "event"  # nobody has said which attributes are sealed
    assert caplog.text.count("an event was not published") == 1
    assert publisher.refused == metric(north, "refused_total", reason="keys") == 3


async def test_a_broker_counts_what_it_does_not_publish_by_why(place, monkeypatch):
    """Also what a client sends that does not look first whether it is too large."""
    kind = await place.define("News", *NEWS)
    await place.release(
        rule("connect", action_id="connect")
        + rule("write", "[{filter: \"place = 'Soho'\"}]", subject_id="ann")
    )
    north = await place.broker("north")
    publisher = await (await place.client("ann", "north")).publisher(kind.name)
    monkeypatch.setattr("pubsub_core.client.publisher.MAX_EVENT_BYTES", 10 * MAX_EVENT_BYTES)
    await publisher.publish(place="Soho", headline="x" * MAX_EVENT_BYTES)
    with pytest.raises(InvalidEvent, match=f"`event` must have at most {MAX_EVENT_BYTES} bytes, not "):
        await publisher.flush()
    await publisher.publish(place="Leeds")
    with pytest.raises(InvalidEvent, match="a restriction excludes it"):
        await publisher.flush()
    await publisher.publish(place="Soho")
    await publisher.flush()
    reasons = "clock", "history", "keys", "permission", "restriction", "size", "type"
    counted = {reason: metric(north, "refused_total", reason=reason) for reason in reasons}
    assert counted == {**dict.fromkeys(reasons, 0), "restriction": 1, "size": 1}
    assert metric(north, "published_total") == 1
    assert metric(north, "withheld_total") == 0
