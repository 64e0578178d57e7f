"""Scopes are announced in pages, in turn, and none is left out."""

from __future__ import annotations

from authz import Identity
from bus.messages import Announcement
from bus.scopes import Scope
from pdp.announcing import (
    ANNOUNCE_SECONDS,
    PAGE_BYTES,
    PAGES_TOLD,
    ROUND_SECONDS,
    SIGN_SECONDS,
    Announcer,
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
