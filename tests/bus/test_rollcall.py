"""A rollcall knows who was heard, who lags and why, and forgets those who cannot be there any more."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from authz import Identity
from bus.messages import MemberStatus, Roll
from bus.rollcall import FORGET_SECONDS, SILENT_SECONDS, Rollcall, Standing

KEY, STRANGER = Identity.from_seed(bytes(32)), Identity.from_seed(bytes([1]) * 32)


SECOND = {"hash of 2", "hash of 3"}
"""The second release, and the one after it."""


def status(name: str, epoch: int = 1, at: float = 1.0, by: Identity = KEY, **more) -> MemberStatus:
    more = {"release": f"hash of {epoch}"} | more
    return MemberStatus(name, "pdp", "shop", epoch, **more).sign(by, at)


@pytest.fixture
def rollcall() -> Rollcall:
    return Rollcall()


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


def test_a_silent_member_is_forgotten_only_when_its_lease_has_ended(rollcall):
    rollcall.hear(status("limited", lease=10.0), 0.0)
    rollcall.hear(status("unlimited"), 0.0)
    rollcall.forget(9.9)
    assert set(rollcall.standings(SECOND, 9.9)) == {"limited", "unlimited"}
    rollcall.forget(10.0)
    assert set(rollcall.standings(SECOND, 10.0)) == {"unlimited"}
    rollcall.forget(FORGET_SECONDS)
    assert len(rollcall) == 0


def test_who_leaves_is_gone_at_once(rollcall):
    rollcall.hear(status("a"), 0.0)
    rollcall.hear(status("a", leaving=True, at=2.0), 0.0)
    assert rollcall.standings(SECOND, 0.0) == {}


def test_what_others_heard_counts_where_it_is_newer(rollcall):
    rollcall.hear(status("a", 1, at=10.0), 10.0)
    rollcall.hear(status("b", 2, at=10.0), 10.0)
    heard = [(status("a", 2, at=10.5), 0.5), (status("b", 1, at=6.0), 5.0), (status("c", 1, at=10.0), 1.0)]
    rollcall.absorb(Roll(heard), 11.0)
    expected = {"a": Standing.APPLIED, "b": Standing.APPLIED, "c": Standing.BEHIND}
    assert rollcall.standings(SECOND, 11.0) == expected


def test_a_roll_told_by_one_is_the_same_to_another(rollcall):
    for number in range(2500):
        rollcall.hear(status(f"m{number}", number), 1.0)
    told = Rollcall()
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
    rollcall.absorb(Roll([(forged, 0.0)]), 1.0)
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
    assert rollcall[f"a ({STRANGER.public})"].epoch == 2
