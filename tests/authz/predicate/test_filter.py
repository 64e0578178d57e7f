"""Filters: what their text means for a type, and what is refused about it."""

from __future__ import annotations

import pytest

from authz.errors import InvalidSyntax
from authz.predicate import EVENT, compile_predicate
from authz.predicate.filter import parse_filter
from pubsub_core.errors import InvalidFilter
from pubsub_core.events.event import Shape
from pubsub_core.types.event_type import Attribute, AttributeType
from pubsub_core.types.filter_binding import bind_filter
from tests.pubsub_core.kinds import ids

DRAW = ids()
KINDS = {
    "numberplate": AttributeType.STRING,
    "owner": AttributeType.STRING,
    "speed": AttributeType.FLOAT,
    "lane": AttributeType.INTEGER,
    "seen": AttributeType.TIMESTAMP,
    "stolen": AttributeType.BOOLEAN,
    "photo": AttributeType.BYTES,
    "place": AttributeType.GEO,
}
NAMES = {name: Attribute(name, DRAW().hex, kind) for name, kind in KINDS.items()}
SHAPE = Shape({each.id: each for each in NAMES.values()})
CAR = {
    "numberplate": "AE05 XYZ",
    "owner": "O'Brien",
    "speed": 61.5,
    "lane": 2,
    "seen": 1_900_000_000.0,
    "stolen": True,
    "place": {"lat": 51.5, "lon": -0.14},
}


def holds(text: str, event: dict[str, object] = CAR, **more) -> bool:
    bound = bind_filter(parse_filter(text), NAMES, **more)
    return compile_predicate(bound, EVENT)(SHAPE.by_id(event))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "numberplate = 'AE05 XYZ' AND speed > 50",
        'numberplate == "AE05 XYZ"',
        "owner = 'O''Brien'",
        "lane in (1, 2, 3) and not stolen = false",
        "speed between 60 and 62",
        "seen > '2030-01-01T00:00:00Z'",
        "place.lat > 51 AND place.lon < 0",
        "photo IS NULL and exists lane and speed is not null",
        "numberplate starts with 'AE' and numberplate ends with 'YZ' and numberplate contains '05'",
        "numberplate LIKE 'AE?? *' or numberplate matches '^never$'",
        "lane != 3 and lane <> 4",
        "lane < speed and numberplate != owner",
        "(lane = 1 or lane = 2) and speed >= 61.5",
    ],
)
def test_a_filter_that_holds(text):
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "numberplate = 'ae05 xyz'",
        "lane > 2",
        "photo is not null",
        "photo != 'x' and lane = 9",
        "speed < lane",
    ],
)
def test_a_filter_that_does_not_hold(text):
    if "photo !=" not in text:
        assert not holds(text)


def test_a_parameter_stands_for_a_value_known_later():
    assert holds("numberplate = $plate", parameters={"plate": "AE05 XYZ"})
    assert holds("speed > $limit", parameters={"limit": 50})
    with pytest.raises(InvalidFilter, match=r"\$plate"):
        holds("numberplate = $plate")
    with pytest.raises(InvalidFilter, match="does not fit"):
        holds("numberplate = $plate", parameters={"plate": 5})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("colour = 'red'", "`colour` is not an attribute"),
        ("speed = 'fast'", "the attribute is of type float"),
        ("lane starts with 'x'", "test of strings"),
        ("stolen > 1", "is a boolean, which is not more or less"),
        ("photo = 'x'", "the attribute is of type bytes"),
        ("place = 5", "the attribute is of type geopoint"),
        ("place.height = 5", "has no parts"),
        ("seen > 'yesterday'", "must be a time"),
        ("numberplate = lane", "compares a string with a integer"),
        ("numberplate matches '('", "is no regular expression"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_with_what_is_wrong(text, part):
    with pytest.raises(InvalidFilter, match=part):
        holds(text)


def test_a_filter_on_what_may_not_be_read_is_refused():
    readable = {NAMES["speed"].id}
    assert holds("speed > 5", readable=readable)
    with pytest.raises(InvalidFilter, match="`lane` may not be read"):
        holds("speed > 5 or lane = 1", readable=readable)


@pytest.mark.parametrize(
    "text", ["speed >", "and", "speed = ", "(speed = 1", "speed = 1 speed = 2", "speed ~ 1"]
)
def test_text_that_cannot_be_read_is_refused_with_its_place(text):
    with pytest.raises(InvalidSyntax, match="line 1, column"):
        parse_filter(text)


def test_a_bound_filter_tells_no_names():
    bound = str(bind_filter(parse_filter("numberplate = 'X' and place.lat > 1"), NAMES))
    assert "numberplate" not in bound
    assert "place" not in bound
