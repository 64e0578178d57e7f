"""What waits while nothing may be delivered: in order, and so much of each sender."""

from __future__ import annotations

import pytest

from pubsub_core.broker.pause_queue import MAX_HELD, MAX_HELD_BYTES, PauseQueue


@pytest.mark.parametrize(("most", "size"), [(MAX_HELD, 1), (4, MAX_HELD_BYTES // 4)])
def test_a_sender_that_floods_takes_no_room_from_others(most, size):
    waiting, done = PauseQueue(), list[str]()
    kept = [waiting.offer("flooder", size, lambda: done.append("flood")) for _ in range(most + 2)]
    assert kept == [True] * most + [False] * 2
    assert waiting.offer("other", size, lambda: done.append("other"))
    waiting.keep(lambda: done.append("own"))
    for work in waiting.take():
        work()
    assert done == [*["flood"] * most, "other", "own"]
    assert not list(waiting.take())
    assert waiting.offer("flooder", size, lambda: None), "there is room again"
