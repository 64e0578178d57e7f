"""Lines between brokers lose nothing, repeat nothing and keep the order, whatever becomes of single messages."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.line import KEPT, KEPT_BYTES, Incoming, Kind, Numbered, Outgoing

fates = st.lists(st.sampled_from(["arrive", "lose", "twice", "late"]), max_size=40)


def receiver_at(last: int = 0) -> Incoming:
    made = Incoming()
    made.begin(7, last)
    return made


@given(fates=fates)
def test_what_is_sent_arrives_whole_in_order_and_once(fates):
    sender, receiver = Outgoing(), receiver_at()
    got: list[bytes] = []
    late: list[Numbered] = []

    def arrive(message: Numbered) -> None:
        got.extend(each.data for each in receiver.take(message))

    for number, fate in enumerate(fates):
        message = sender.add("a", 7, bytes([number]))
        if fate == "late":
            late.append(message)
        elif fate != "lose":
            arrive(message)
            if fate == "twice":
                arrive(message)
    for message in late:
        arrive(message)
    if receiver.lacks(sender.number):
        for message in sender.since(receiver.next):
            arrive(message)
    assert not receiver.lacks(sender.number)
    assert got == [bytes([number]) for number in range(len(fates))]


def test_what_the_sender_no_longer_has_is_skipped_and_what_waited_for_it_is_handed_on():
    sender, receiver = Outgoing(), receiver_at()
    sent = [sender.add("a", 7, str(n).encode()) for n in range(KEPT + 5)]
    assert receiver.take(sent[5]) == []
    kept = sender.since(receiver.next)
    assert len(kept) == KEPT
    assert receiver.skip(kept[0].number) == [sent[5]]
    got = [each for message in kept for each in receiver.take(message)]
    assert got == sent[6:]


@pytest.mark.parametrize(("most", "size"), [(KEPT, 1), (4, KEPT_BYTES // 4)])
def test_so_much_waits_for_what_is_missing_and_that_is_taken_all_the_same(most, size):
    receiver, data = receiver_at(), bytes(size)
    for number in range(2, most + 4):
        assert receiver.take(Numbered("a", 7, number, data)) == []
    taken = receiver.take(Numbered("a", 7, 1, data))
    assert [each.number for each in taken] == list(range(1, most + 2))
    later = [Numbered("a", 7, number, data) for number in range(most + 2, 2 * most + 2)]
    assert [each for message in reversed(later) for each in receiver.take(message)] == later, (
        "there is room again"
    )


def test_whoever_is_met_later_is_heard_from_then_on():
    sender, receiver = Outgoing(), receiver_at(3)
    sent = [sender.add("a", 7, b"x") for _ in range(5)]
    assert [each for message in sent for each in receiver.take(message)] == sent[3:]


def test_a_sender_that_starts_again_counts_again_and_its_past_does_not_return():
    receiver = receiver_at()
    old = [Numbered("a", 7, number, b"old") for number in (1, 2)]
    assert receiver.take(old[0]) == [old[0]]
    receiver.begin(8, 0)
    new = Numbered("a", 8, 1, b"new")
    assert receiver.take(old[1]) == []
    assert receiver.take(new) == [new]


def test_only_who_shares_the_secret_can_say_something():
    message = Numbered("a", 7, 1, b"x").tagged(b"s" * 32)
    assert message.authentic(b"s" * 32)
    assert not message.authentic(b"t" * 32)
    assert not message.authentic(b"")
    for change in ({"sender": "b"}, {"boot": 8}, {"number": 2}, {"data": b"y"}, {"kind": Kind.CACHED}):
        assert not msgspec.structs.replace(message, **change).authentic(b"s" * 32)
