"""Conditions held against many events at once: they say what they say of each by itself."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authz.predicate import EVENT, compile_predicate
from pubsub_core.events.batch_filter import select, sift
from pubsub_core.events.event import Event, encode
from tests.pubsub_core.filters import events, filters

drawn = st.lists(
    st.none()
    | st.builds(Event, st.just("t"), st.just("v"), st.just(b"k"), st.just(1.0), st.integers(0, 9), events),
    max_size=8,
)


@given(filters, drawn)
def test_many_events_are_sifted_as_each_would_be(wanted, some):
    holds = compile_predicate(wanted, EVENT)
    passing = [each if each is not None and holds(each.attributes) else None for each in some]
    assert sift(wanted, some) == passing
    pairs = [(each, msgspec.Raw(encode(each))) for each in some if each is not None]
    assert [event for event, _ in select(wanted, pairs)] == [each for each in passing if each is not None]
