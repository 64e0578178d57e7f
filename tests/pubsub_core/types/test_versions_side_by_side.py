"""Restrictions and the versions of a type, on real brokers: no new name, kind or sub-type lets more through."""

from __future__ import annotations

from pubsub_core.types.edit import Renamed, Retyped, apply, find
from pubsub_core.types.event_type import AttributeType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.town import NEWS, rule, subscriber_of, take
from tests.waiting import eventually


async def restricted(place, kind, obligations: str) -> None:
    thing = f'"/types/{kind.name}"'
    await place.release(
        rule("all", subject_id="ann")
        + rule("connect", action_id="connect")
        + rule("read", obligations, subject_id="bob", resource_id=thing, action_id="subscribe")
    )


async def edited(place, kind, *edits):
    """The next version of a type, known at all brokers."""
    new = apply(kind, edits)
    await place.types.publish(SignedType.sign(new, place.key))
    await eventually(lambda: all(new.version in service.catalogue for service in place.services))
    return new


async def test_what_is_hidden_stays_hidden_under_another_name(place):
    kind = await place.define("News", *NEWS)
    await restricted(place, kind, "[{hidden: [place]}]")
    await place.broker("north")
    ann, bob = [await place.client(name, "north") for name in ("ann", "bob")]
    publisher, reader = await ann.publisher(kind.name), await bob.subscriber(kind.name)
    await publisher.publish(headline="one", place="Soho")
    assert await take(reader, 1) == [{"headline": "one"}]
    before = subscriber_of(place, bob).granted
    await edited(place, kind, Renamed(find(kind, "place"), "town"))
    await eventually(lambda: subscriber_of(place, bob).granted is not before)
    await publisher.publish(headline="two", place="Soho")
    assert await take(reader, 1) == [{"headline": "two"}]
    again = await bob.subscriber(kind.name)
    await publisher.publish(headline="three", place="Soho")
    assert await take(again, 1) == [{"headline": "three"}]


async def test_what_is_hidden_by_its_new_name_is_hidden_in_sub_types_that_have_the_old_one(place):
    old = await place.define("News", *NEWS)
    child = await place.define("Sports", ("team", "string"), parent=old)
    kind = apply(old, [Renamed(find(old, "place"), "town")])
    await place.types.publish(SignedType.sign(kind, place.key))
    await restricted(place, kind, "[{hidden: [town]}]")
    await place.broker("north")
    ann, bob = [await place.client(name, "north") for name in ("ann", "bob")]
    publisher, reader = await ann.publisher(child.name), await bob.subscriber(kind.name)
    await publisher.publish(headline="one", place="Soho", team="reds")
    assert await take(reader, 1) == [{"headline": "one", "team": "reds"}]


async def test_an_event_made_by_a_version_with_other_kinds_of_values_does_not_slip_past_a_filter(place):
    old = await place.define("News", *NEWS)
    await restricted(place, old, "[{filter: \"NOT score = '5'\"}]")
    await place.broker("north")
    ann, bob = [await place.client(name, "north") for name in ("ann", "bob")]
    by_old = await ann.publisher(old.name)
    kind = await edited(place, old, Retyped(find(old, "score"), AttributeType.STRING))
    by_new, reader = await ann.publisher(kind.name), await bob.subscriber(kind.name)
    await by_old.publish(headline="old", score=5)
    await by_new.publish(headline="forbidden", score="5")
    await by_new.publish(headline="new", score="6")
    assert await take(reader, 1) == [{"headline": "new", "score": "6"}]
    assert reader.unread == 0
