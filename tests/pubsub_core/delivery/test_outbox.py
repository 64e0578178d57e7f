"""An outbox sends in order, no more than its window ahead, and again what was not received."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.delivery.outbox import Outbox

steps = st.lists(st.sampled_from(["put", "send", "drop", "put back", "ack", "lose"]), max_size=60)


@given(steps=steps, data=st.data())
def test_the_client_gets_everything_in_order_and_once_whatever_is_lost(steps, data):
    outbox = Outbox[int](window=4, limit=1000)
    put, dropped = 0, set[int]()
    received: list[int] = []

    def send_all(first: int, items: list[int]) -> None:
        """What a client does: it takes what is new and in order."""
        for number, item in enumerate(items, first):
            if number == len(received) + 1:
                received.append(item)

    for step in steps:
        if step == "put":
            outbox.put(put)
            put += 1
        elif step in ("send", "lose"):
            taken = outbox.take(data.draw(st.integers(1, 3)))
            outbox.keep(taken)
            if step == "send":
                send_all(outbox.last - len(taken) + 1, taken)
        elif step == "drop":
            dropped.update(outbox.take(1))
        elif step == "put back":
            outbox.put_back(outbox.take(3))
        elif step == "ack":
            outbox.acknowledge(data.draw(st.integers(0, len(received))))
        assert len(outbox._sent) <= 4
    send_all(*outbox.unacknowledged(len(received)))
    while outbox.waiting:
        taken = outbox.take(2)
        outbox.keep(taken)
        send_all(outbox.last - len(taken) + 1, taken)
        outbox.acknowledge(len(received))
    assert received == [n for n in range(put) if n not in dropped]


def test_an_outbox_with_more_than_its_limit_is_full():
    outbox = Outbox[int](window=2, limit=3)
    for n in range(3):
        outbox.put(n)
    assert not outbox.full
    outbox.put(3)
    assert outbox.full
