"""What a name means depends on whom the domain trusts with it, never on who was first: on a real server."""

from __future__ import annotations

from time import time
from uuid import uuid4

import pytest

from authz import Identity
from authz.spki import Kind, Notice, Owners, Resource, encode_chain
from bus.feeds.revocations import publish_notice
from bus.wire import subjects
from bus.wire.subjects import broker_record
from pubsub_core import Refused
from pubsub_core.carriage.records import HELLO, TOLD, Hello, Told, word_record
from pubsub_core.client.client import CallRefused
from pubsub_core.errors import AmbiguousType, TypeRefused, UnknownType
from pubsub_core.stores.type_store import TypeStore
from pubsub_core.trust.vouches import ALL, vouch
from pubsub_core.types.edit import Added, apply
from pubsub_core.types.event_type import Attribute, AttributeType, EventType
from pubsub_core.types.names import Names, below
from pubsub_core.types.registry import Catalogue
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.kinds import MET, NOW, PITO, THIEF, chain_of
from tests.pubsub_core.town import NEWS, take
from tests.waiting import eventually


def define(name: str, owner: Identity, *attributes: tuple[str, str], **more) -> EventType:
    return EventType.new(name, owner.public, attributes, uuid4, **more)


async def store(place, *signed: SignedType) -> None:
    """Put definitions into the store, as anybody may who can write there."""
    for each in signed:
        await TypeStore(place.bus, Catalogue()).publish(each)


class TestNames:
    def test_the_longest_prefix_counts(self):
        names = Names([*below("uk", PITO.public), *below("uk.gov.met", MET.public)])
        assert names.owners("uk.gov.pito.Sighting") == {PITO.public}
        assert names.owners("uk.gov.met.Chase") == names.owners("uk.gov.met") == {MET.public}
        assert names.owners("uk.gov.metro.Train") == {PITO.public}
        assert names.owners("us.Sighting") == frozenset()

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_a_name_means_the_same_in_whatever_order_definitions_come(self, order):
        both = [define("uk.Sighting", PITO), define("uk.Sighting", THIEF)]
        signed = [SignedType.sign(each, by) for each, by in zip(both, (PITO, THIEF), strict=True)]
        catalogue = Catalogue(Names(below("uk", PITO.public)))
        for number in order:
            if number:
                with pytest.raises(TypeRefused, match="not trusted with this name"):
                    catalogue.accept(signed[number], NOW)
            else:
                catalogue.accept(signed[number], NOW)
        assert catalogue.named("uk.Sighting") == both[0]
        torn = Catalogue(Names([*below("uk", PITO.public), *below("uk", THIEF.public)]))
        for number in order:
            torn.accept(signed[number], NOW)
        with pytest.raises(AmbiguousType, match=r"--names uk\.Sighting=KEY"):
            torn.named("uk.Sighting")

    def test_whoever_is_trusted_with_names_lets_others_define_them(self):
        kind = define("uk.gov.met.Chase", MET)
        granted = chain_of("type: uk.gov.met.*\naction: define")
        catalogue = Catalogue(Names(below("uk", PITO.public)))
        for wrong in (
            (),
            [chain_of("type: uk.gov.met.*\naction: publish")],
            [chain_of("type: uk.gov.pito.*\naction: define")],
            [chain_of("type: uk.*\naction: define", to=THIEF)],
            [chain_of("type: uk.*\naction: define", by=THIEF)],
        ):
            with pytest.raises(TypeRefused, match="not trusted with this name"):
                catalogue.accept(SignedType.sign(kind, MET, install=wrong), NOW)
        signed = SignedType.decode(SignedType.sign(kind, MET, install=[granted]).encode())
        assert catalogue.accept(signed, NOW) == catalogue.named(kind.name)
        catalogue.heed(Notice.event(PITO, granted[0], int(NOW)), NOW)
        assert catalogue.review(NOW)
        with pytest.raises(UnknownType):
            catalogue.named(kind.name)
        anew = SignedType.sign(kind, MET, install=[chain_of("type: uk.gov.met.Chase\naction: define")])
        assert catalogue.accept(anew, NOW) == catalogue.named(kind.name)

    def test_whoever_gave_a_name_away_can_still_use_it(self):
        mine, theirs = define("uk.Sighting", PITO), define("uk.Sighting", MET)
        granted = [chain_of("type: uk.Sighting\naction: define")]
        catalogue = Catalogue(Names(below("uk", PITO.public)))
        catalogue.accept(SignedType.sign(theirs, MET, install=granted), NOW)
        assert catalogue.named("uk.Sighting") == theirs
        catalogue.accept(SignedType.sign(mine, PITO), NOW)
        assert catalogue.named("uk.Sighting") == mine
        assert catalogue.label(theirs) == f"{MET.public}/uk.Sighting"


async def test_a_strangers_definition_that_comes_first_is_in_nobodys_way(place):
    name = f"{place.domain}.News"
    await store(place, SignedType.sign(define(name, THIEF, ("headline", "integer")), THIEF))
    north = await place.broker("north")
    kind = await place.define("News", *NEWS)
    await eventually(lambda: kind.version in north.catalogue)
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber, publisher = await reader.subscriber(name), await writer.publisher(name)
    await publisher.publish(headline="ours")
    assert await take(subscriber, 1) == [{"headline": "ours"}]
    assert {each.definition.owner for each in north.catalogue if each.definition.name == name} == {
        str(place.key.public)
    }


async def test_nobody_defines_a_type_by_a_name_that_is_not_theirs(place):
    await place.broker("north")
    thief = await place.client("eve", "north", THIEF)
    stolen = SignedType.sign(define(f"{place.domain}.News", THIEF), THIEF)
    with pytest.raises(CallRefused, match="not trusted with this name"):
        await thief.add_type(stolen)
    with pytest.raises(UnknownType):
        await thief.publisher(f"{place.domain}.News")


async def test_who_owns_a_type_is_not_for_its_definition_to_say(place):
    """Where owners are known by `--owners`, a capability is asked for whatever key a definition claims as its owner."""
    owners = Owners([(Resource(Kind.TYPE, f"{place.domain}.*"), place.key.public)])
    kind = await place.define("News", *NEWS)
    granted = chain_of(f"type: {kind.name}\naction: extend", to=THIEF, by=place.key)
    other = define(f"{place.domain}.Sports", THIEF, parent=kind, extend=encode_chain(granted))
    await store(place, SignedType.sign(other, THIEF))
    north = await place.broker("north", owners=owners)
    assert other.version in north.catalogue
    reads = Identity.generate()
    capability = encode_chain(chain_of(f"type: {place.domain}.*\naction: subscribe", to=reads, by=place.key))
    async with place.connected("ann", "north", reads, chains=(capability,)) as reader:
        await reader.subscriber(kind.name)
        (session,) = north.broker.sessions.values()
        assert set(session.subscriptions[1].granted) == {kind.id}
    eve = await place.client("eve", "north")
    with pytest.raises(UnknownType):
        await eve.subscriber(other.name)
    with pytest.raises(Refused):
        await eve.subscriber(kind.name)


async def test_a_broker_that_nobody_vouches_for_brings_no_types(place):
    """It knows a genuine definition that its owner keeps to himself, and any number of its own."""
    north = await place.broker("north")
    rogue, name = Identity.generate(), f"rogue-{place.domain}"
    ours = SignedType.sign(define(f"{place.domain}.Secret", place.key), place.key)
    made = [SignedType.sign(define(f"{place.domain}.T{each}", THIEF), THIEF) for each in range(50)]
    refused = north.broker.counts.untrusted
    own = vouch(rogue.public, [ALL], time() + 100, rogue)

    def say(what: str, data: bytes) -> None:
        place.bus.send(broker_record(place.domain, subjects.place(rogue.public), what), data)

    def heard() -> bool:
        """It says hello until it is heard, as brokers do."""
        say("hello.x", HELLO.sign(Hello(name, place.domain, time(), 1), rogue))
        say(*word_record(own))
        return name in north.broker.peers

    await eventually(heard)
    for number, each in enumerate((ours, *made)):
        say(f"type.{number}", TOLD.sign(Told(each.encode()), rogue))
    await eventually(lambda: north.broker.counts.untrusted >= refused + 51)
    known = {each.definition.name for each in north.catalogue}
    assert not {each for each in known if each.startswith(f"{place.domain}.")}
    # Once somebody does who may, what it tells is taken.
    word = vouch(rogue.public, [ALL], time() + 100, place.key)
    say(*word_record(word))
    await eventually(lambda: north.web.trusts(str(rogue.public), "", str(place.key.public), time()))
    await eventually(lambda: ours.definition.version in north.catalogue)
    assert not any(each.definition.version in north.catalogue for each in made)


async def test_an_edit_by_a_capability_that_is_taken_back_no_longer_counts(place):
    kind = await place.define("News", *NEWS)
    granted = chain_of(f"type: {kind.name}\naction: addAttribute", by=place.key)
    edited = apply(kind, [Added(Attribute("lane", uuid4().hex, AttributeType.INTEGER))])
    signed = SignedType.sign(edited, MET, granted, time())
    await store(place, signed)
    north = await place.broker("north")
    writer = await place.client("ann", "north")
    await (await writer.publisher(kind.name)).publish(headline="h", lane=1)
    await publish_notice(place.bus, Notice.event(place.key, granted[0], int(time())))
    await eventually(lambda: north.catalogue.named(kind.name) == kind)
    with pytest.raises(CallRefused, match="does not hold"):
        await writer.add_type(SignedType.sign(edited, MET, granted, time()))
    later = await place.broker("later")
    assert later.catalogue.named(kind.name) == kind
    assert edited.version not in later.catalogue


async def test_a_sub_type_by_a_capability_that_is_taken_back_is_no_more(place):
    kind = await place.define("News", *NEWS)
    granted = chain_of(f"type: {kind.name}\naction: extend", by=place.key)
    child = define(f"{place.domain}.Sports", MET, parent=kind, extend=encode_chain(granted))
    trusts = [(f"{place.domain}.*", place.key.public), (child.name, MET.public)]
    await store(place, SignedType.sign(child, MET))
    north = await place.broker("north", names=trusts)
    writer, reader = await place.client("ann", "north"), await place.client("bob", "north")
    subscriber = await reader.subscriber(kind.name)
    sports, news = await writer.publisher(child.name), await writer.publisher(kind.name)
    await sports.publish(headline="before")
    assert await take(subscriber, 1) == [{"headline": "before"}]
    await publish_notice(place.bus, Notice.event(place.key, granted[0], int(time())))
    await eventually(lambda: child.version not in north.catalogue and not north.broker.held)
    with pytest.raises(UnknownType):
        await writer.publisher(child.name)
    await news.publish(headline="after")
    assert await take(subscriber, 1) == [{"headline": "after"}]
