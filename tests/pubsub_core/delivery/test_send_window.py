"""A window sends in order, no more than its window ahead, and again what was not received."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.delivery.send_window import SendWindow

steps = st.lists(st.sampled_from(["put", "send", "drop", "put back", "ack", "lose"]), max_size=60)


@given(steps=steps, data=st.data())
def test_the_client_gets_everything_in_order_and_once_whatever_is_lost(steps, data):
    send_window = SendWindow[int](window=4, limit=1000)
    put, dropped = 0, set[int]()
    received: list[int] = []

    def send_all(first: int, items: list[int]) -> None:
        """What a client does: it takes what is new and in order."""
        for number, item in enumerate(items, first):
            if number == len(received) + 1:
                received.append(item)

    for step in steps:
        if step == "put":
            send_window.put(put)
            put += 1
        elif step in ("send", "lose"):
            taken = send_window.take(data.draw(st.integers(1, 3)))
            send_window.keep(taken)
            if step == "send":
                send_all(send_window.last - len(taken) + 1, taken)
        elif step == "drop":
            dropped.update(send_window.take(1))
        elif step == "put back":
            send_window.put_back(send_window.take(3))
        elif step == "ack":
            send_window.acknowledge(data.draw(st.integers(0, len(received))))
        assert len(send_window._sent) <= 4
    send_all(*send_window.unacknowledged(len(received)))
    while send_window.waiting:
        taken = send_window.take(2)
        send_window.keep(taken)
        send_all(send_window.last - len(taken) + 1, taken)
        send_window.acknowledge(len(received))
    assert received == [n for n in range(put) if n not in dropped]


def test_a_send_window_with_more_than_its_limit_is_full():
    send_window = SendWindow[int](window=2, limit=3)
    for n in range(3):
        send_window.put(n)
    assert not send_window.full
    send_window.put(3)
    assert send_window.full
