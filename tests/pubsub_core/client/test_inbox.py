"""What comes for a client's subscribers is taken in order and once, and told when it was read."""

from __future__ import annotations

import msgspec
import pytest

from pubsub_core.client.inbox import ACKNOWLEDGE, Inbox
from pubsub_core.messages import Delivery, Entry, Tense


class Reader:
    """A subscriber that reads nothing by itself."""

    past_read = 0

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.unread = 0

    def put(self, entries, tense) -> None:
        assert tense is Tense.PRESENT
        self.got += [bytes(each.raw) for each in entries]
        self.unread += len(entries)


@pytest.fixture
def inbox():
    inbox = Inbox()
    inbox.subscribers |= {1: Reader(), 2: Reader()}
    return inbox


def delivery(first: int, *items: tuple[int, bytes] | None) -> Delivery:
    return Delivery(first, [item and Entry(item[0], msgspec.Raw(item[1])) for item in items])


def test_each_subscriber_gets_its_own_in_order(inbox):
    assert inbox.take(delivery(1, (1, b"a"), (2, b"b"), None, (1, b"c"), (3, b"nobody's"), (1, b"d")))
    assert [each.got for each in inbox.subscribers.values()] == [[b"a", b"c", b"d"], [b"b"]]
    assert inbox.received == 6


def test_what_comes_twice_is_taken_once(inbox):
    inbox.take(delivery(1, (1, b"a"), (1, b"b")))
    assert inbox.take(delivery(1, (1, b"a")))
    assert inbox.take(delivery(2, (1, b"b"), (1, b"c")))
    assert inbox.subscribers[1].got == [b"a", b"b", b"c"]


def test_nothing_is_taken_before_what_is_missing(inbox):
    inbox.take(delivery(1, (1, b"a")))
    assert not inbox.take(delivery(3, (1, b"c")))
    assert inbox.subscribers[1].got == [b"a"]
    assert inbox.received == 1


def test_a_broker_is_told_of_what_was_read_now_and_then(inbox):
    inbox.take(delivery(1, *[(1, b"a")] * ACKNOWLEDGE, (2, b"b")))
    assert not inbox.acknowledge(), "nothing was read"
    inbox.subscribers[1].unread = 0
    assert inbox.word("s").number == ACKNOWLEDGE
    assert inbox.acknowledge()
    assert not inbox.acknowledge(), "it has been told"
    inbox.begin()
    assert inbox.received == 0
