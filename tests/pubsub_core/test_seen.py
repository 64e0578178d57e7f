"""What a reader has seen is not new again, and what it asks for again is what it may lack."""

from __future__ import annotations

from pubsub_core.event import Event
from pubsub_core.seen import LOOKBACK, Seen


def event(time: float, number: int = 0, type_: str = "t") -> Event:
    return Event(type_, "v", b"p", time, number, {})


def test_an_event_is_new_once_and_what_rules_make_of_it_is_another():
    seen = Seen(0.0)
    assert seen.is_new(event(1.0, 1))
    assert not seen.is_new(event(1.0, 1))
    assert seen.is_new(event(1.0, 1, "other"))
    assert seen.is_new(event(1.0, 2))
    assert seen.is_new(event(2.0, 1))


def test_what_is_asked_for_again_begins_a_while_before_the_newest_and_never_before_the_start():
    seen = Seen(100.0)
    assert seen.resume == 100.0
    seen.is_new(event(100.0 + LOOKBACK / 2))
    assert seen.resume == 100.0
    seen.is_new(event(100.0 + 3 * LOOKBACK))
    assert seen.resume == 100.0 + 2 * LOOKBACK


def test_nothing_is_asked_for_again_that_would_not_be_known():
    seen = Seen(0.0, most=10)
    for number in range(100):
        seen.is_new(event(float(number), number))
    assert seen.resume == 90.0
    assert not any(seen.is_new(event(float(number), number)) for number in range(90, 100))
