"""Events fit their types, or are refused with the attribute named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.errors import InvalidEvent
from pubsub_core.events.event import Event, Shape, decode, encode
from pubsub_core.types.event_type import Attribute, AttributeType
from tests.pubsub_core.kinds import ids

DRAW = ids()
ALL = {each.value: Attribute(each.value, DRAW().hex, each) for each in AttributeType}
SHAPE = Shape({each.id: each for each in ALL.values()})
GOOD = {
    "string": "x",
    "integer": -5,
    "float": 2,
    "boolean": False,
    "timestamp": 1.5,
    "bytes": b"\0",
    "geopoint": {"lat": 51.5, "lon": -0.1},
}
BAD = [
    ("string", 1), ("string", b"x"), ("integer", 1.0), ("integer", True), ("integer", 2**63), ("float", "1"),
    ("float", float("nan")), ("float", float("inf")), ("boolean", 1), ("timestamp", "now"), ("bytes", "x"),
    ("geopoint", {"lat": 91, "lon": 0}), ("geopoint", {"lat": 1}), ("geopoint", [1, 2]),
]  # fmt: skip


def test_values_that_fit_are_taken_under_their_uuids():
    assert SHAPE.by_id(GOOD) == {ALL[name].id: value for name, value in GOOD.items()}


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_does_not_fit_is_refused_by_name(name, value):
    with pytest.raises(InvalidEvent) as refused:
        SHAPE.by_id({**GOOD, name: value})
    assert refused.value.attribute == name


def test_an_attribute_that_the_type_does_not_have_is_refused():
    with pytest.raises(InvalidEvent, match="`colour` is not an attribute"):
        SHAPE.by_id({"colour": "red"})
    with pytest.raises(InvalidEvent, match="is not an attribute"):
        SHAPE.check({DRAW().hex: "red"})


def test_what_is_not_said_or_null_fits():
    SHAPE.check(SHAPE.by_id({"string": None}))


def test_an_event_travels_without_loss_and_without_names():
    event = Event(DRAW().hex, DRAW().hex, b"k" * 32, 12.5, 7, SHAPE.by_id(GOOD))
    data = encode(event)
    assert decode(data) == event
    assert not [name for name in GOOD if name.encode() in data]


@given(data=st.binary(max_size=100))
def test_bytes_that_are_no_event_are_refused(data):
    with pytest.raises(InvalidEvent):
        decode(data)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_a_number_that_no_database_can_keep_is_refused(number):
    with pytest.raises(InvalidEvent):
        decode(encode(Event("t", "v", b"p", 1.0, number, {})))
    largest = Event("t", "v", b"p", 1.0, 2**63 - 1, {})
    assert decode(encode(largest)) == largest
