"""Who is connected, and who takes more than their share."""

from __future__ import annotations

from authz import Identity
from bus.server.system_account import Connected
from pdp.access.connection_accounting import ConnectionAccounting, Share
from pdp.access.control import write_label

KEY = Identity.generate().public
LABEL = write_label(KEY, [bytes(32)])
SHARE = Share(messages_per_second=10, bytes_per_second=1000, subscriptions=5, ban_seconds=60)


def connected(number=1, **used) -> Connected:
    return Connected("N1", number, LABEL, **used)


def test_connections_are_counted_by_key_and_each_once():
    census = ConnectionAccounting()
    for number in (1, 2, 2):
        census.came(connected(number))
    assert census.count(str(KEY)) == 2
    for number in (2, 2, 9):
        census.left(connected(number))
    assert census.count(str(KEY)) == 1
    assert len(census) == 1


def test_a_share_is_counted_from_look_to_look():
    census = ConnectionAccounting(SHARE)
    assert census.look([connected(messages=1_000_000)], 1.0) == []  # it may have been here for long
    assert census.look([connected(messages=1_000_010)], 2.0) == []
    assert len(census.look([connected(messages=1_000_021)], 3.0)) == 1


def test_bytes_and_subscriptions_count_too():
    census = ConnectionAccounting(SHARE)
    census.look([connected()], 1.0)
    assert len(census.look([connected(bytes=1001)], 2.0)) == 1
    assert len(census.look([connected(subscriptions=6)], 3.0)) == 1


def test_a_ban_ends():
    census = ConnectionAccounting(SHARE)
    census.ban(str(KEY), 100.0)
    assert census.banned(str(KEY), 159.0)
    assert not census.banned(str(KEY), 160.0)
    assert not census.banned("another", 101.0)
