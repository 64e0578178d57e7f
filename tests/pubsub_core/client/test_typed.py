"""Typed events: classes and definitions say the same, and conditions on classes are filters."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from authz import Identity
from authz.predicate.filter import parse_filter
from pubsub_core.client.cloud_events import read_cloud_event, to_cloud_event
from pubsub_core.client.subscriber import Delivered
from pubsub_core.client.typed import Condition, Event, Place, define, event_class, stubs, typed, values_of
from pubsub_core.errors import InvalidEvent, InvalidType
from pubsub_core.types import AttributeType
from tests.pubsub_core.town import NEWS
from tests.waiting import PATIENCE

OWNER = Identity.generate().public


class Sighting(Event):
    plate: str
    speed: float | None = None
    at: datetime | None = None
    place: Place | None = None
    lane: int | None = None
    wet: bool | None = None
    picture: bytes | None = None


FULL = Sighting(
    plate="AB12",
    speed=58.5,
    at=datetime(2030, 1, 31, 8, tzinfo=UTC),
    place=Place(51.5, -0.1),
    lane=2,
    wet=False,
    picture=b"\0",
)


def test_a_class_and_its_definition_say_the_same():
    definition = define(Sighting, OWNER)
    kinds = {each.name: each.type for each in definition.attributes}
    assert list(kinds.values()) == list(map(AttributeType, (
        "string", "float", "timestamp", "geopoint", "integer", "boolean", "bytes"
    )))  # fmt: skip
    back = event_class(definition)
    assert {each.name: each.type for each in define(back, OWNER).attributes} == kinds
    made: dict[str, object] = {}
    exec(compile(stubs([definition]), "events.py", "exec", dont_inherit=True), made)
    assert {each.name: each.type for each in define(made["Sighting"], OWNER).attributes} == kinds


def test_what_is_published_is_read_back():
    assert typed(Sighting, values_of(FULL)) == FULL
    assert values_of(Sighting(plate="X")) == {"plate": "X"}


def test_an_attribute_that_is_withheld_and_needed_is_named():
    with pytest.raises(
        InvalidEvent, match="`plate` is not in this event: declare it in `Sighting` with None"
    ):
        typed(Sighting, {"speed": 1.0})


def test_an_attribute_of_no_type_is_named():
    class Wrong(Event):
        tags: list[str]

    with pytest.raises(InvalidType, match="`tags` must be one of str"):
        define(Wrong, OWNER)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Sighting.plate == "O'Neil", "plate = 'O''Neil'"),
        ((Sighting.speed > 50) & ~(Sighting.lane == 1), "speed > 50 AND NOT lane = 1"),
        (Sighting.lane.in_([1, 2]) | (Sighting.plate != "X"), "lane IN (1, 2) OR plate != 'X'"),
        (Sighting.at >= datetime(2030, 1, 31, 8, tzinfo=UTC), "at >= '2030-01-31T08:00:00Z'"),
        (Sighting.plate.starts_with("AB"), "plate STARTS WITH 'AB'"),
        (Sighting.speed == None, "speed IS NULL"),  # noqa: E711
    ],
)
def test_a_condition_is_the_filter_that_it_reads_as(condition: Condition, text: str):
    assert parse_filter(str(condition)) == parse_filter(text)
    with pytest.raises(TypeError, match="join conditions by"):
        bool(condition)


async def test_typed_events_go_from_publisher_to_subscriber(place):
    kind = await place.define("News", *NEWS)

    class News(Event):
        __type__ = kind.name
        headline: str
        score: int | None = None

    class Wrong(Event):
        __type__ = kind.name
        headline: int

    await place.broker("north")
    ann, bob = await place.client("ann", "north"), await place.client("bob", "north")
    events = bob.subscribe(News, News.score > 1)
    first = asyncio.ensure_future(anext(events))
    publisher = await ann.publisher(kind.name)
    await asyncio.wait_for(publisher.wanted(), PATIENCE)
    for score in (1, 2):
        await ann.publish(News(headline="hello", score=score))
    assert await asyncio.wait_for(first, PATIENCE) == News(headline="hello", score=2)
    with pytest.raises(InvalidType, match="is declared integer"):
        await anext(bob.subscribe(Wrong))
    with pytest.raises(TypeError, match="a condition compares"):
        await anext(bob.subscribe(News, False))


def test_a_cloud_event_says_what_the_event_does():
    definition = define(Sighting, OWNER)
    event = Delivered(definition, {"plate": "AB12", "picture": b"\0"}, 1896076800.0, OWNER, 7)
    cloud = to_cloud_event(event)
    assert cloud["time"] == "2030-01-31T08:00:00Z"
    read = read_cloud_event(cloud)
    assert (read.type, read.id, read.data) == ("Sighting", "7", {"plate": "AB12", "picture": "AA=="})
    with pytest.raises(InvalidEvent, match=r"`specversion` must be 1\.0"):
        read_cloud_event('{"specversion": "0.3", "id": "1", "source": "/x", "type": "t"}')
