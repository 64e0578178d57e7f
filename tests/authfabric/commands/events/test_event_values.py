"""Events as they are typed: each attribute by its type, and an error that says what would be right."""

from __future__ import annotations

from time import time

import pytest

from authfabric.commands.events.event_values import parse_line, parse_pairs, parse_time
from pubsub_core import AttributeType, InvalidEvent
from pubsub_core.types import Attribute

ATTRIBUTES = {
    each.value: Attribute(each.value, f"{number:032x}", each) for number, each in enumerate(AttributeType)
}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("string=12", "12"),
        ("string=a=b", "a=b"),
        ("integer=12", 12),
        ("float=1e3", 1000.0),
        ("boolean=True", True),
        ("timestamp=2030-01-31T08:00:00Z", 1896076800.0),
        ("bytes=aGk=", b"hi"),
        ("geopoint=51.5,-0.1", {"lat": 51.5, "lon": -0.1}),
    ],
)
def test_a_value_is_read_by_the_attributes_type(pair, value):
    assert parse_pairs([pair], ATTRIBUTES) == {pair.partition("=")[0]: value}


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("integer=1.5", "a whole number, not `1.5`"),
        ("boolean=yes", "true or false"),
        ("timestamp=soon", "2030-01-31T08:00:00Z"),
        ("geopoint=51", "LATITUDE,LONGITUDE"),
        ("nothing=1", "is no attribute of the type"),
        ("string", "must be NAME=VALUE"),
    ],
)
def test_what_does_not_fit_is_said_with_what_would(pair, problem):
    with pytest.raises(InvalidEvent, match=problem):
        parse_pairs([pair], ATTRIBUTES)


def test_a_line_is_one_json_object():
    line = '{"string": "a", "integer": 3, "bytes": "aGk=", "float": null}'
    assert parse_line(line, ATTRIBUTES) == {"string": "a", "integer": 3, "bytes": b"hi"}
    with pytest.raises(InvalidEvent, match="one JSON object"):
        parse_line("[1]", ATTRIBUTES)


def test_times_are_lengths_ago_or_moments():
    assert abs(time() - 3600 - parse_time("1h")) < 60
    assert parse_time("beginning") == 0.0
    with pytest.raises(ValueError, match="later"):
        parse_time("later")
