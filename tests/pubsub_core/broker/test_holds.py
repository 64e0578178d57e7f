"""What is held waits, and nothing else but what must come after it."""

from __future__ import annotations

import msgspec

from pubsub_core.broker.holds import MAX_PARKED, Holds
from pubsub_core.events import Event

ANN, EVE = b"a" * 32, b"e" * 32


def event(type_: str, publisher: bytes, sequence: int = 1):
    return msgspec.Raw(b""), Event(type_, "v", publisher, 0.0, sequence, {})


def test_a_type_is_held_until_everybody_who_held_it_has_released_it():
    holds = Holds()
    holds.hold(["t", "u"])
    holds.hold(["t"])
    holds.release(["t", "u"])
    assert holds.holds(["t"])
    assert not holds.holds(["u"])
    assert not holds.everything
    holds.hold()
    assert holds.holds(["u"])
    assert holds.everything


def test_what_is_of_a_held_type_is_parked_and_what_its_publisher_published_after_it():
    holds = Holds()
    holds.hold(["t"])
    held, after, other = event("t", ANN), event("u", ANN, 2), event("u", EVE)
    assert holds.park([held, after, other]) == [other]
    assert holds.park([event("u", EVE, 2)]), "whose events are not parked"
    assert holds.unpark() == [held, after]
    holds.release(["t"])
    assert holds.park([held, after]) == [held, after]


def test_when_much_is_parked_nothing_more_is_to_come():
    holds = Holds()
    holds.hold(["t"])
    holds.park([event("t", ANN)] * (MAX_PARKED - 1))
    assert not holds.full
    holds.park([event("t", ANN)])
    assert holds.full
