"""An event's time selects its key, clocks may differ a little, and old keys are destroyed after their delay."""

import pytest

from pubsub_core.keys import DataKey, KeyRing

GROUP = "a" * 32


def ring() -> KeyRing:
    held = KeyRing(skew=5.0)
    for epoch, start in ((2, 200.0), (1, 100.0), (3, 300.0)):
        held.add(DataKey(GROUP, epoch, start, bytes([epoch]) * 32))
    return held


@pytest.mark.parametrize(
    ("at", "epoch"), [(94.9, None), (95.0, 1), (100.0, 1), (199.9, 1), (200.0, 2), (300.0, 3), (9e9, 3)]
)
def test_one_seals_with_the_newest_key_that_has_begun(at, epoch):
    key = ring().sealing(GROUP, at)
    assert (key.epoch if key else None) == epoch


@pytest.mark.parametrize(
    ("epoch", "at", "counts"),
    [
        (2, 194.9, False),
        (2, 195.0, True),
        (2, 200.0, True),
        (2, 304.9, True),
        (2, 305.0, False),
        (3, 294.9, False),
        (3, 9e9, True),
        (4, 350.0, False),
    ],
)
def test_a_key_counts_in_its_period_and_as_much_beyond_as_clocks_may_differ(epoch, at, counts):
    assert (ring().opening(GROUP, epoch, at) is not None) == counts


def test_a_key_is_overwritten_when_its_successor_is_older_than_the_destruction_delay():
    held = ring()
    first = held.sealing(GROUP, 150.0)
    assert held.expire(now=259.9, delay=60.0) == 0
    assert bytes(first._secret) == b"\1" * 32
    assert held.expire(now=260.0, delay=60.0) == 1
    assert bytes(first._secret) == bytes(32)
    assert held.opening(GROUP, 1, 150.0) is None
    assert held.opening(GROUP, 2, 250.0) is not None


def test_the_newest_key_is_never_too_old():
    held = ring()
    assert held.expire(now=9e9, delay=0.0) == 2
    assert held.sealing(GROUP, 9e9).epoch == 3


def test_leaving_a_group_destroys_its_keys():
    held = ring()
    keys = list(held.of(GROUP))
    held.drop(GROUP)
    assert not held.holds(GROUP)
    assert all(bytes(key._secret) == bytes(32) for key in keys)


def test_a_key_does_not_show_its_secret():
    assert "01" * 8 not in repr(ring().sealing(GROUP, 150.0))
