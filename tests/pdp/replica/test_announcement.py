"""Scopes are announced in pages, in turn, and none is left out."""

from __future__ import annotations

import pytest

from authz import Identity
from bus.wire.messages import Announcement
from bus.wire.scopes import Scope
from pdp.replica.announcement import (
    ANNOUNCE_SECONDS,
    ANNOUNCEMENTS_A_SECOND,
    MOST_ANNOUNCE_SECONDS,
    PAGE_BYTES,
    PAGES_TOLD,
    ROUND_SECONDS,
    SIGN_SECONDS,
    Announcer,
    Crowd,
)
from tests.warrants import warrant

FEW = [Scope.parse("prefix:/sales"), Scope.parse("object:/hr/x")]
MANY = [Scope.parse(f"object:/tenants/{number}") for number in range(30_000)]


def texts(pages: list[Announcement]) -> list[str]:
    return [text for page in pages for text in page.scopes]


def test_a_few_scopes_are_one_page_that_is_repeated():
    announcer = Announcer(FEW, None)
    assert announcer.all(0.0) == announcer.next(0.0) == announcer.next(1.0)
    assert texts(announcer.all(0.0)) == [str(scope) for scope in FEW]


def test_whoever_serves_nothing_still_says_that_it_is_there():
    assert [page.scopes for page in Announcer([], None).next(0.0)] == [[]]


def test_many_scopes_are_many_pages_of_limited_size():
    pages = Announcer(MANY, None).all(0.0)
    assert texts(pages) == [str(scope) for scope in MANY]
    assert max(sum(map(len, page.scopes)) for page in pages) <= PAGE_BYTES


def test_each_page_counts_until_its_turn_comes_again():
    announcer = Announcer(MANY, None)
    pages = announcer.all(0.0)
    turns = 0
    heard: set[str] = set()
    while len(heard) < len(MANY):
        heard.update(texts(announcer.next(float(turns))))
        turns += 1
    assert turns * ANNOUNCE_SECONDS <= ROUND_SECONDS
    assert all(page.ttl > turns * ANNOUNCE_SECONDS for page in pages)


def test_a_page_is_signed_anew_only_every_few_seconds():
    announcer = Announcer(FEW, warrant(Identity.generate()))
    (first,) = announcer.next(1000.0)
    assert announcer.next(1000.0 + SIGN_SECONDS / 2) == [first]
    (later,) = announcer.next(1000.0 + SIGN_SECONDS)
    assert (later.at, later.signature != first.signature) == (1000.0 + SIGN_SECONDS, True)


def test_many_who_ask_at_once_are_told_the_first_page_each():
    announcer = Announcer(MANY, None)
    everything = announcer.all(0.0)
    told = [announcer.told(0.0) for _ in range(1000)]
    assert told[0] == everything
    assert told[-1] == everything[:1]
    assert sum(len(pages) for pages in told if len(pages) > 1) <= PAGES_TOLD
    announcer.next(1.0)
    assert announcer.told(1.0) == everything


def crowd(count: int, now: float = 0.0) -> Crowd:
    """So many others, as one of them knows them."""
    crowd = Crowd()
    for number in range(count):
        crowd.hear(b"%d" % number, 10.0, now)
    return crowd


class TestCrowd:
    @pytest.mark.parametrize("count", [1, 2, 5, 6, 17, 100, 300])
    def test_however_many_there_are_they_announce_as_much_together(self, count):
        interval = crowd(count - 1).interval(0.0)
        assert count / interval <= ANNOUNCEMENTS_A_SECOND
        assert interval >= ANNOUNCE_SECONDS

    def test_a_few_announce_themselves_every_second(self):
        assert crowd(4).interval(0.0) == ANNOUNCE_SECONDS

    def test_none_is_silent_for_longer_than_a_minute(self):
        assert crowd(10_000).interval(0.0) == MOST_ANNOUNCE_SECONDS

    def test_who_is_not_heard_again_or_withdraws_is_not_counted(self):
        others = crowd(99)
        assert others.interval(9.9) == 20.0
        for number in range(95):
            others.hear(b"%d" % number, 0.0, 9.9)
        assert others.interval(9.9) == ANNOUNCE_SECONDS
        assert crowd(99).interval(10.0) == ANNOUNCE_SECONDS


@pytest.mark.parametrize("scopes", [FEW, MANY])
@pytest.mark.parametrize("interval", [1.0, 20.0, MOST_ANNOUNCE_SECONDS])
def test_what_is_announced_counts_until_it_was_missed_twice(scopes, interval):
    announcer = Announcer(scopes, None)
    announcer.interval = interval
    turns = 0
    heard: set[str] = set()
    while len(heard) < len(scopes):
        heard.update(texts(announcer.next(0.0)))
        turns += 1
    assert {page.ttl - (turns - 1) * interval > 2 * interval for page in announcer.all(0.0)} == {True}


def test_another_lifetime_is_signed_at_once():
    announcer = Announcer(FEW, warrant(Identity.generate()))
    (short,) = announcer.next(1000.0)
    announcer.interval = 20.0
    (long,) = announcer.next(1001.0)
    assert (short.ttl < long.ttl, short.signature != long.signature) == (True, True)


def test_what_is_announced_after_a_withdrawal_is_signed_after_it():
    announcer = Announcer(FEW, warrant(Identity.generate()))
    announcer.next(1000.0)
    (withdrawn,) = announcer.withdrawal(1001.0)
    (again,) = announcer.next(1002.0)
    assert (withdrawn.ttl, withdrawn.at, again.at) == (0.0, 1001.0, 1002.0)


def test_an_announcement_is_signed_anew_when_the_clock_was_set_back():
    """PEPs would refuse the old one, and nobody could name the clock."""
    announcer = Announcer(FEW, warrant(Identity.generate()))
    announcer.all(10_000.0)
    assert [page.at for page in announcer.all(6_400.0)] == [6_400.0]
