"""Runs of events: read in one step, and checked in one step, no more laxly than one by one."""

from __future__ import annotations

import math
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz import Identity
from pubsub_core.errors import InvalidEvent
from pubsub_core.events.event import Event, Shape, decode, encode
from pubsub_core.events.run import RunCheck, as_array, decode_all, lengths_of_runs
from pubsub_core.types.event_type import AttributeType, EventType

KIND = EventType.new("all", Identity.generate().public, [(each.value, each) for each in AttributeType], uuid4)
ATTRIBUTES = {each.id: each for each in KIND.attributes}
CHECK, SHAPE = RunCheck(KIND.id, KIND.version, ATTRIBUTES), Shape(ATTRIBUTES)
KEY = b"k" * 32
RIGHT = {
    AttributeType.STRING: "a", AttributeType.INTEGER: -7, AttributeType.FLOAT: 0.5, AttributeType.BOOLEAN: True,
    AttributeType.TIMESTAMP: 1e9, AttributeType.BYTES: b"a", AttributeType.GEO: {"lat": 51.5, "lon": -0.1},
}  # fmt: skip

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats()
scalars = st.none() | st.booleans() | numbers | st.text(max_size=3) | st.binary(max_size=3)
places = st.dictionaries(st.sampled_from(["lat", "lon", "alt"]), numbers | st.none())
rows = st.dictionaries(st.sampled_from([*ATTRIBUTES, "unknown"]), scalars | places)


def event(values: dict[str, object], **more: object) -> Event:
    return msgspec.structs.replace(Event(KIND.id, KIND.version, KEY, 5.0, 1, values), **more)


def admits(*events: Event) -> bool:
    return CHECK.admits(as_array([encode(each) for each in events]), KEY, 10.0)


def is_right(values: dict[str, object]) -> bool:
    try:
        SHAPE.check(decode(encode(event(values))).attributes)
    except InvalidEvent:
        return False
    return True


@given(rows)
def test_what_is_admitted_together_would_be_by_itself(values):
    assert not admits(event({}), event(values)) or is_right(values)


@pytest.mark.parametrize("kind", AttributeType)
def test_usual_values_of_every_kind_are_admitted(kind):
    (id_,) = (each.id for each in KIND.attributes if each.type is kind)
    assert admits(event({id_: RIGHT[kind]}), event({id_: None}), event({}))
    assert not admits(event({id_: RIGHT[kind]}), event({id_: [1]}))


@pytest.mark.parametrize(
    "change",
    [
        {"type": "0" * 32}, {"version": "0" * 32}, {"publisher": b"x" * 32}, {"time": 10.5}, {"time": -1.0},
        {"time": math.nan}, {"attributes": {"unknown": 1}},
    ],
)  # fmt: skip
def test_one_that_is_not_like_the_others_is_not_admitted(change):
    assert admits(event({}), event({}))
    assert not admits(event({}), event({}, **change), event({}))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 300, 70_000])
def test_many_events_are_read_as_each_by_itself(count):
    raws = [encode(event({}, sequence=number)) for number in range(count)]
    assert [each.sequence for each in decode_all(raws)] == list(range(count))


def test_where_one_cannot_be_read_none_is():
    with pytest.raises(InvalidEvent):
        decode_all([encode(event({})), b"\xc0"])


def test_runs_are_as_long_as_one_type_follows_itself():
    assert lengths_of_runs("aabaaa") == [2, 1, 3]
    assert lengths_of_runs("") == []
