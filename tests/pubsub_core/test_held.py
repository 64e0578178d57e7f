"""What waits while nothing may be delivered: in order, and so much of each sender."""

from __future__ import annotations

import pytest

from pubsub_core import held
from pubsub_core.held import MAX_HELD, MAX_HELD_BYTES, Held
from tests.pubsub_core.pair import Pair


@pytest.mark.parametrize(("most", "size"), [(MAX_HELD, 1), (4, MAX_HELD_BYTES // 4)])
def test_a_sender_that_floods_takes_no_room_from_others(most, size):
    waiting, done = Held(), list[str]()
    kept = [waiting.offer("flooder", size, lambda: done.append("flood")) for _ in range(most + 2)]
    assert kept == [True] * most + [False] * 2
    assert waiting.offer("other", size, lambda: done.append("other"))
    waiting.keep(lambda: done.append("own"))
    for work in waiting.take():
        work()
    assert done == [*["flood"] * most, "other", "own"]
    assert not list(waiting.take())
    assert waiting.offer("flooder", size, lambda: None), "there is room again"


def test_what_other_brokers_send_while_nothing_is_delivered_is_bounded_and_counted(monkeypatch):
    monkeypatch.setattr(held, "MAX_HELD", 2)
    pair = Pair()
    pair.subscribe()
    pair.away.hold()
    for speed in (1.0, 2.0, 3.0):
        pair.publish(pair.bundle({"speed": speed}))
    pair.carry()
    pair.away.release()
    assert [values["speed"] for _, values in pair.seen()] == [1.0, 2.0]
    assert pair.away.counts.overflowed == 1
