"""A rollcall knows who was heard, who lags and why, and forgets those who cannot be there any more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from authz import Identity, PublicKey
from bus.feeds.member_table import FORGET_SECONDS, SILENT_SECONDS, MemberTable, Standing
from bus.feeds.status_reporter import REPEAT_SECONDS
from bus.wire.messages import MemberList, MemberStatus

KEY, STRANGER = Identity.from_seed(bytes(32)), Identity.from_seed(bytes([1]) * 32)


SECOND = {"hash of 2", "hash of 3"}
"""The second release, and the one after it."""


def status(name: str, epoch: int = 1, at: float = 1.0, by: Identity = KEY, **more) -> MemberStatus:
    more = {"release": f"hash of {epoch}"} | more
    return MemberStatus(name, "pdp", "shop", epoch, **more).sign(by, at)


@pytest.fixture
def rollcall() -> MemberTable:
    return MemberTable()


def test_each_member_stands_where_it_last_said(rollcall):
    rollcall.hear(status("b", 2), 0.0)
    rollcall.hear(status("a", 1), 0.0)
    rollcall.hear(status("c", 1, ok=False, problem="no good"), 0.0)
    expected = {"a": Standing.BEHIND, "b": Standing.APPLIED, "c": Standing.REFUSED}
    assert rollcall.standings(SECOND, 1.0) == expected
    rollcall.hear(status("a", 3, at=2.0), 1.0)
    assert rollcall.standings(SECOND, 1.0)["a"] is Standing.APPLIED


@pytest.mark.parametrize("more", [{"release": "another hash"}, {"ok": False, "problem": "no good"}])
def test_the_number_of_a_release_does_not_count_without_its_hash_nor_where_something_is_wrong(rollcall, more):
    rollcall.hear(status("a", 2, **more), 0.0)
    assert rollcall.standings(SECOND, 0.0)["a"] is not Standing.APPLIED


def test_who_falls_silent_before_applying_is_not_taken_to_have_applied(rollcall):
    rollcall.hear(status("a"), 0.0)
    assert rollcall.standings(SECOND, SILENT_SECONDS + 1) == {"a": Standing.SILENT}


def test_a_silent_member_is_forgotten_only_when_a_lease_taken_before_its_next_word_has_ended(rollcall):
    rollcall.hear(status("limited", lease=10.0), 0.0)
    rollcall.hear(status("unlimited"), 0.0)
    end = REPEAT_SECONDS + 10.0
    rollcall.forget(end - 0.1)
    assert set(rollcall.standings(SECOND, end - 0.1)) == {"limited", "unlimited"}
    rollcall.forget(end)
    assert set(rollcall.standings(SECOND, end)) == {"unlimited"}
    rollcall.forget(REPEAT_SECONDS + FORGET_SECONDS)
    assert len(rollcall) == 0


def test_who_leaves_is_gone_at_once_and_what_others_heard_before_does_not_bring_it_back(rollcall):
    before, left = status("a"), status("a", leaving=True, at=2.0)
    rollcall.hear(before, 0.0)
    rollcall.hear(left, 0.0)
    rollcall.absorb(MemberList([(before, 0.5)]), 1.0)
    assert (rollcall.standings(SECOND, 1.0), len(rollcall)) == ({}, 0)
    (told,) = rollcall.rolls(1.0)
    other = MemberTable()
    other.hear(before, 0.9)
    other.absorb(told, 1.0)
    assert other.standings(SECOND, 1.0) == {}


def test_a_word_that_is_repeated_counts_from_when_it_was_last_heard_and_is_not_verified_again(
    rollcall, monkeypatch
):
    said, verified = status("a", lease=10.0), list[bytes]()
    verify = PublicKey.verify
    monkeypatch.setattr(
        PublicKey, "verify", lambda key, *given: verified.append(key.raw) or verify(key, *given)
    )
    for second in range(100):
        rollcall.hear(said, float(second))
    rollcall.absorb(MemberList([(said, 50.0)]), 99.0)
    assert len(verified) == 1
    rollcall.forget(98.9 + REPEAT_SECONDS + 10.0)
    assert len(rollcall) == 1


def test_whoever_asks_is_told_only_of_those_it_has_not_heard(rollcall):
    asking = MemberTable()
    for name in ("a", "b", "c"):
        rollcall.hear(status(name), 1.0)
    asking.hear(status("a", 2, at=3.0), 1.0)
    asking.hear(status("b", by=STRANGER), 1.0)
    (told,) = rollcall.rolls(1.0, frozenset(asking.marks))
    assert [each.member for each, _ in told.members] == ["b", "c"]


def test_where_there_is_no_room_those_who_cannot_be_there_any_more_make_some(rollcall, monkeypatch):
    monkeypatch.setattr("bus.feeds.member_table.MOST", 2)
    for name in ("a", "b", "c"):
        rollcall.hear(status(name, lease=10.0), 0.0)
    assert set(rollcall.named()) == {"a", "b"}
    rollcall.hear(status("c", lease=10.0), REPEAT_SECONDS + 10.0)
    assert set(rollcall.named()) == {"c"}


def test_what_others_heard_counts_where_it_is_newer(rollcall):
    rollcall.hear(status("a", 1, at=10.0), 10.0)
    rollcall.hear(status("b", 2, at=10.0), 10.0)
    heard = [(status("a", 2, at=10.5), 0.5), (status("b", 1, at=6.0), 5.0), (status("c", 1, at=10.0), 1.0)]
    rollcall.absorb(MemberList(heard), 11.0)
    expected = {"a": Standing.APPLIED, "b": Standing.APPLIED, "c": Standing.BEHIND}
    assert rollcall.standings(SECOND, 11.0) == expected


def test_a_roll_told_by_one_is_the_same_to_another(rollcall):
    for number in range(2500):
        rollcall.hear(status(f"m{number}", number), 1.0)
    told = MemberTable()
    for part in rollcall.rolls(2.0):
        assert len(part.members) <= 1000
        told.absorb(part, 102.0)
    assert told.standings({"hash of 7"}, 102.0) == rollcall.standings({"hash of 7"}, 2.0)


FORGED = {
    "unsigned": MemberStatus("a", "pdp", "shop", 2, at=3.0, signer=KEY.public.raw, release="hash of 2"),
    "with the signature of something else": replace(status("a", at=3.0), epoch=2, release="hash of 2"),
    "by another key": replace(status("a", 2, at=3.0, by=STRANGER), signer=KEY.public.raw),
    "by another member of that name": status("a", 2, at=3.0, by=STRANGER),
    "that it has left": replace(status("a", at=3.0), leaving=True),
    "of nobody": MemberStatus("a", "pdp", "shop", 2, at=3.0, release="hash of 2"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_nobody_says_in_anothers_name_how_far_that_one_is(rollcall, forged):
    rollcall.hear(status("a"), 0.0)
    rollcall.hear(forged, 1.0)
    rollcall.absorb(MemberList([(forged, 0.0)]), 1.0)
    assert Standing.BEHIND in rollcall.standings(SECOND, 1.0).values()


def test_what_a_member_said_before_is_of_no_use_after_what_it_says_now(rollcall):
    rollcall.hear(status("a", 1, at=2.0), 0.0)
    for earlier in (status("a", 2, at=1.0), status("a", leaving=True, at=2.0)):
        rollcall.hear(earlier, 1.0)
    assert rollcall.standings(SECOND, 1.0) == {"a": Standing.BEHIND}


def test_two_of_one_name_are_shown_with_their_keys(rollcall):
    rollcall.hear(status("a"), 0.0)
    rollcall.hear(status("a", 2, by=STRANGER), 0.0)
    assert rollcall.standings(SECOND, 0.0) == {
        f"a ({KEY.public})": Standing.BEHIND,
        f"a ({STRANGER.public})": Standing.APPLIED,
    }
    assert rollcall.named()[f"a ({STRANGER.public})"].status.epoch == 2
