"""What a broker sends once more after it was killed is known, and nothing else is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.event import Event, encode
from pubsub_core.line import Outgoing
from pubsub_core.repeats import DOUBT_SECONDS, MOST, MOST_BYTES, Read, Repeats
from tests.pubsub_core.net import CAMERA, KIND, SPEED, Net, net


def event(number: int, type_: str = "t", at: float = 1.0) -> Read:
    made = Event(type_, "v", b"p" * 32, at, number, {})
    return msgspec.Raw(encode(made)), made


def numbers(events: list[Read]) -> list[int]:
    return [each.sequence for _, each in events]


@given(st.lists(st.one_of(st.sets(st.integers(0, 9)), st.just("restart")), max_size=12))
def test_what_comes_again_is_left_out_once_a_broker_has_started_anew_and_not_before(told):
    repeats, now = Repeats(), 0.0
    sent, before = set[int](), set[int]()
    for each in told:
        now += 1.0
        if each == "restart":
            repeats.doubt("a", now)
            before |= sent
        else:
            new = repeats.new("a", [event(number) for number in sorted(each)], 1, now)
            assert numbers(new) == sorted(each - before)
            sent |= each


def test_an_event_of_another_broker_type_or_time_is_another():
    repeats = Repeats()
    repeats.new("a", [event(1)], 1, 1.0)
    repeats.doubt("a", 2.0)
    repeats.doubt("b", 2.0)
    assert numbers(repeats.new("a", [event(1), event(1, "u"), event(1, at=2.0)], 1, 3.0)) == [1, 1]
    assert numbers(repeats.new("b", [event(1)], 1, 3.0)) == [1]


@pytest.mark.parametrize(("count", "size"), [(MOST // 2, 1), (1, MOST_BYTES // 2)])
def test_so_much_is_remembered(count, size):
    """Three messages of which there is room for two."""
    repeats = Repeats()
    for number in range(3):
        repeats.new("a", [event(number * count + each) for each in range(count)], size, 1.0)
    repeats.doubt("a", 2.0)
    again = [event(number) for number in range(3 * count)]
    assert numbers(repeats.new("a", again, 1, 3.0)) == list(range(count))


def test_it_is_forgotten_after_a_while():
    repeats = Repeats()
    repeats.new("a", [event(1)], 1, 1.0)
    repeats.forget(1.0 + DOUBT_SECONDS)
    repeats.doubt("a", 700.0)
    repeats.forget(699.0 + DOUBT_SECONDS)
    assert not repeats.new("a", [event(1)], 1, 1299.0)
    repeats.forget(700.0 + DOUBT_SECONDS)
    assert repeats.new("a", [event(1)], 1, 1301.0)


def kill(made: Net, name: str) -> None:
    """Have a broker start anew, knowing nothing of its clients nor of what it has sent."""
    broker = made.brokers[name]
    broker.forwarding.boot += 1
    broker.sessions.clear()
    for peer in broker.peers.values():
        peer.outgoing = Outgoing()
    made.pass_()


def test_what_a_killed_broker_is_sent_again_is_delivered_once():
    made = net("a", "b")
    made.subscribe("b")
    sent = made.now
    first = [
        Event(KIND.id, KIND.version, CAMERA.public.raw, sent, number, {SPEED: 1.0 * number})
        for number in (1, 2)
    ]
    made.publish_events("a", first)
    kill(made, "a")
    made.publish_events("a", [*first, msgspec.structs.replace(first[0], sequence=3, attributes={SPEED: 3.0})])
    assert made.seen("b") == {(1, speed): 1 for speed in (1.0, 2.0, 3.0)}
    assert made.brokers["b"].counts.replayed == 2
