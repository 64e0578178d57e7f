"""The owner of a type says who may use it and how, at every broker that carries it, beside the domain of the broker."""

from __future__ import annotations

import asyncio
import contextlib
from time import time
from uuid import uuid4

import pytest

from authz import Identity
from authz.errors import InvalidSignature
from pdp.bundle import Bundle, File
from pubsub_core.carriage.policy_records import PolicyRecords
from pubsub_core.delivery.session import Counts, Setting
from pubsub_core.errors import Refused, TypeRefused
from pubsub_core.events.batch_signature import Scrutiny
from pubsub_core.trust.credential import Credentials
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types import OwnerPolicies, OwnerPolicy, sign_policy
from tests.pubsub_core.conftest import place
from tests.pubsub_core.kinds import MET, PITO, catalogue_of, sighting
from tests.pubsub_core.town import NEWS, OPEN, rule, take, town, wanted
from tests.waiting import eventually

__all__ = ["place"]

KIND = sighting()


def packed(**files: str) -> bytes:
    return Bundle.of(File(name.replace("_", "."), text) for name, text in files.items()).pack()


async def say(place, kind, **files: str) -> None:
    """Have the owner say who may use its type."""
    await place.types.refresh()
    policy = OwnerPolicy(kind.id, time(), packed(**files) if files else b"")
    await place.types.publish_policy(sign_policy(policy, place.key))


@pytest.fixture
async def hosted(place, jetstream_server, tmp_path):
    """Another domain, with policies and a broker of its own, for which the owner of the type vouches."""
    (tmp_path / "host").mkdir()
    async with town(jetstream_server, tmp_path / "host") as host, contextlib.AsyncExitStack() as stack:
        identity = Identity.generate()
        keys = {host.domain: {host.key.public}, place.domain: {place.key.public}}
        words = tuple(vouch(identity.public, [ALL], time() + 1000, each.key) for each in (place, host))
        serving = host.running(
            "far", identity=identity, clients=keys, roots={place.key.public, host.key.public}, vouches=words
        )
        await stack.enter_async_context(serving)
        yield host


async def near(place, hosted):
    keys = {each.domain: {each.key.public} for each in (place, hosted)}
    return await place.broker("near", clients=keys)


async def test_an_owners_policy_binds_in_another_domain_and_both_must_permit(place, hosted):
    kind = await place.define("News", *NEWS)
    await say(place, kind, owner_yaml=OPEN + rule("no", effect="deny", subject_id="eve"))
    await near(place, hosted)
    far = hosted.services[0]
    await eventually(lambda: far.policies.of(kind.id))
    ann, bob = await place.client("ann", "near"), await hosted.client("bob", "far")
    with pytest.raises(Refused):
        await (await hosted.client("eve", "far")).subscriber(kind.name)
    subscriber, publisher = await bob.subscriber(kind.name), await ann.publisher(kind.name)
    await wanted(publisher)
    await publisher.publish(score=1)
    assert await take(subscriber, 1) == [{"score": 1}]
    await hosted.release(OPEN + rule("ours", effect="deny", subject_id="bob", action_id="subscribe"))
    await eventually(
        lambda: (
            not any(s.granted for each in far.broker.sessions.values() for s in each.subscriptions.values())
        )
    )
    await publisher.publish(score=2)
    await hosted.release(OPEN)
    await wanted(publisher)
    await eventually(
        lambda: any(s.granted for each in far.broker.sessions.values() for s in each.subscriptions.values())
    )
    await publisher.publish(score=3)
    assert (await take(subscriber, 1))[0]["score"] in (2, 3)


async def test_what_an_owner_says_anew_reaches_every_broker_and_what_clients_have_already(place, hosted):
    kind = await place.define("News", *NEWS)
    await near(place, hosted)
    ann, bob = await place.client("ann", "near"), await hosted.client("bob", "far")
    subscriber, publisher = await bob.subscriber(kind.name), await ann.publisher(kind.name)
    await wanted(publisher)
    await publisher.publish(headline="a", place="Soho", score=1)
    assert await take(subscriber, 1) == [{"headline": "a", "place": "Soho", "score": 1}]
    rules = (
        f"all: ALLOW SUBSCRIPTION TO {kind.name}\n"
        f"high: RESTRICT DELIVERY OF {kind.name} FILTER score > 5\n"
        f"blur: TRANSFORM EVENT {kind.name} TO {kind.name} ON notify EXECUTE drop(place)\n"
    )
    actions = "".join(rule(each, action_id=each) for each in ("advertise", "publish"))
    await say(place, kind, owner_rules=rules, owner_yaml=actions)
    far = hosted.services[0]

    def restricted() -> bool:
        (session,) = far.broker.sessions.values()
        (held,) = session.subscriptions.values()
        return bool(held.granted) and bool(held.granted[kind.id].restriction.owned)

    await eventually(restricted)
    for score in (2, 7):
        await publisher.publish(headline="b", place="Soho", score=score)
    assert await take(subscriber, 1) == [{"headline": "b", "score": 7}]
    await hosted.release(OPEN + rule("less", "[{hidden: [headline]}]", subject_id="bob"))
    await eventually(lambda: restricted() and subscription(far).granted[kind.id].restriction.visible)
    await publisher.publish(headline="c", place="Soho", score=8)
    assert await take(subscriber, 1) == [{"score": 8}], "the owner's rules and the host's restriction"
    await say(place, kind)
    await eventually(lambda: not restricted())


async def test_what_could_not_be_asked_anew_is_held_and_asked_again(place, monkeypatch):
    kind = await place.define("News", *NEWS)
    service = await place.broker("near")
    client = await place.client("ann", "near")
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(kind.name)
    reauthorize, failed = service.claims.reauthorize, asyncio.Event()

    async def fail(*about, **more) -> None:
        assert service.broker.holds({kind.id})
        monkeypatch.setattr(service.claims, "reauthorize", reauthorize)
        failed.set()
        raise RuntimeError("it was not asked")

    monkeypatch.setattr(service.claims, "reauthorize", fail)
    high = (
        f"high: RESTRICT DELIVERY OF {kind.name} FILTER score > 5\nall: ALLOW SUBSCRIPTION TO {kind.name}\n"
    )
    await say(
        place,
        kind,
        owner_rules=high,
        owner_yaml=rule("open", action_id="advertise") + rule("publish", action_id="publish"),
    )
    await failed.wait()
    for score in (2, 7):
        await publisher.publish(headline="b", place="Soho", score=score)
    assert [each["score"] for each in await take(subscriber, 1)] == [7]


def subscription(service):
    (session,) = service.broker.sessions.values()
    (found,) = session.subscriptions.values()
    return found


async def test_rules_of_owner_and_host_both_let_through_what_is_delivered(place, hosted):
    kind = await place.define("News", *NEWS)
    actions = "".join(rule(each, action_id=each) for each in ("advertise", "publish", "connect"))
    low = f"low: ALLOW SUBSCRIPTION TO {kind.name} WHERE score < 8\n"
    high = f"high: ALLOW SUBSCRIPTION TO {kind.name} WHERE score > 3\n"
    await say(place, kind, owner_rules=low, owner_yaml=actions)
    await hosted._publisher.push(Bundle.of([File("h.rules", high), File("h.yaml", actions)]), force="a test")
    await near(place, hosted)
    ann, bob = await place.client("ann", "near"), await hosted.client("bob", "far")
    subscriber, publisher = await bob.subscriber(kind.name), await ann.publisher(kind.name)
    await wanted(publisher)
    for score in (1, 5, 9, 6):
        await publisher.publish(score=score)
    assert await take(subscriber, 2) == [{"score": 5}, {"score": 6}]


async def test_where_the_policy_of_a_governed_type_is_not_known_nobody_uses_it(place):
    kind = await place.define("News", *NEWS, governed=True)
    sport = await place.define("Sport", parent=kind)
    service = await place.broker("near")
    client = await place.client("ann", "near")
    await eventually(lambda: service.catalogue.knows(sport.id))
    for each in (kind, sport):
        with pytest.raises(Refused):
            await client.subscriber(each.name)
        with pytest.raises(Refused):
            await client.publisher(each.name)
    await say(place, kind, owner_yaml=OPEN)
    await eventually(lambda: service.policies.of(kind.id))
    subscriber, publisher = await client.subscriber(kind.name), await client.publisher(sport.name)
    await publisher.publish(score=1)
    assert await take(subscriber, 1) == [{"score": 1}]


async def test_nobody_but_its_owner_says_anything_about_a_type(place):
    kind = await place.define("News", *NEWS)
    await place.types.refresh()
    forged = sign_policy(OwnerPolicy(kind.id, time(), packed(a_yaml=OPEN)), Identity.generate())
    with pytest.raises(TypeRefused, match="only its owner"):
        await place.types.publish_policy(forged)
    with pytest.raises(TypeRefused, match="no such type"):
        await place.types.publish_policy(sign_policy(OwnerPolicy(uuid4().hex, 1.0, b""), place.key))


def test_of_two_policies_the_later_counts_and_only_if_the_owner_signed_it():
    told: list[str] = []
    policies = OwnerPolicies(catalogue_of(KIND), told.append)
    first, later = (sign_policy(OwnerPolicy(KIND.id, at, b"x"), PITO) for at in (1.0, 2.0))
    assert policies.accept(later)
    assert not policies.accept(first)
    assert policies.of(KIND.id).at == 2.0
    assert told == [KIND.id]
    with pytest.raises(InvalidSignature):
        policies.accept(sign_policy(OwnerPolicy(KIND.id, 3.0, b"x"), MET))


@pytest.mark.parametrize("network", [b"", b"n" * 32], ids=["plain", "locked"])
def test_brokers_tell_each_other_what_owners_say(network):
    def records() -> PolicyRecords:
        setting = Setting(
            "b", "met", Identity.generate(), catalogue_of(KIND), Credentials({}), lambda *sent: None, lambda: 0.0,
            lambda: b"", Scrutiny(1.0, lambda: 0.5),
        )  # fmt: skip
        return PolicyRecords(setting, Counts(), network)

    here, there = records(), records()
    here._policies.accept(sign_policy(OwnerPolicy(KIND.id, 1.0, b"x"), PITO))
    ((name, data),) = here
    assert name == f"policy.{KIND.id}"
    there.hear(data)
    assert there._policies.of(KIND.id) is not None
    there.hear(data[:-1] + bytes([data[-1] ^ 1]))
    assert there._counts.forged == 1
