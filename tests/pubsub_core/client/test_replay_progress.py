"""A reader of the past that has to ask again gets each event once, however many are of one moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.client.replay_progress import Progress
from pubsub_core.events.event import Event

MANY = 50_000
"""Of one moment: looking through all of them for each would take hours."""


def event(number: int, time: float) -> Event:
    return Event("type", "version", b"publisher", time, number, {})


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 30), max_size=4))
def test_whoever_asks_again_from_where_it_was_has_each_event_once(times, stops):
    events = [event(number, float(time)) for number, time in enumerate(sorted(times))]
    progress, read = Progress(), list[Event]()
    for stop in (*stops, len(events)):
        start = progress.start
        left = [each for each in events if start is None or each.time >= start]
        read += filter(progress.is_new, left[:stop] if stop < len(events) else left)
    assert read == events


def test_any_number_of_events_may_be_of_one_moment():
    events, progress = [event(number, 1.0) for number in range(MANY)], Progress()
    assert all(map(progress.is_new, events))
    assert not any(map(progress.is_new, events))
