"""What a reader has seen is not new again, and what it asks for again is what it may lack."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.events.deduplication import LOOKBACK, RUN_BITS, RUN_SECONDS, Seen
from pubsub_core.events.event import Event


def event(time: float, number: int = 0, type_: str = "t") -> Event:
    return Event(type_, "v", b"p", time, number, {})


def test_an_event_is_new_once_and_what_rules_make_of_it_is_another():
    seen = Seen(0.0)
    assert seen.is_new(event(1.0, 1))
    assert not seen.is_new(event(1.0, 1))
    assert seen.is_new(event(1.0, 1, "other"))
    assert seen.is_new(event(1.0, 2))
    assert seen.is_new(event(1.0 + RUN_SECONDS, 1))


def test_what_is_asked_for_again_begins_a_while_before_the_newest_and_never_before_the_start():
    seen = Seen(100.0)
    assert seen.resume == 100.0
    seen.is_new(event(100.0 + LOOKBACK / 2))
    assert seen.resume == 100.0
    seen.is_new(event(100.0 + 3 * LOOKBACK))
    assert seen.resume == 100.0 + 2 * LOOKBACK


def test_nothing_is_asked_for_again_that_would_not_be_known():
    seen = Seen(0.0, most=10)
    events = [event(number * RUN_SECONDS / 2, number << RUN_BITS) for number in range(100)]
    assert all(map(seen.is_new, events))
    again = [each for each in events if each.time >= seen.resume]
    assert len(again) == 10
    assert not any(map(seen.is_new, again))


def test_many_more_events_are_remembered_than_runs_of_numbers():
    """Those of the last minutes come again when another broker was restarted, at whatever rate they were published."""
    seen = Seen(0.0, most=3)
    events = [event(number / 1000, 7_000_000 + number) for number in range(1_000)]
    assert all(map(seen.is_new, events))
    assert not any(map(seen.is_new, events))
    assert seen.resume == 0.0


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.sampled_from("tu"), st.sampled_from((b"p", b"q")), st.integers(0, 2))
    )
)
def test_each_event_is_new_the_first_time_only(names):
    """Also of publishers that count anew."""
    events = [
        Event(type_, "v", publisher, 1000.0 * session + number, number << 8, {})
        for number, type_, publisher, session in names
    ]
    seen, known = Seen(0.0), set[tuple[object, ...]]()
    for each in events:
        name = each.publisher, each.sequence, each.time, each.type
        assert seen.is_new(each) == (name not in known)
        known.add(name)
