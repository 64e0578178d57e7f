"""What a replica says it serves: any number of scopes, in pages that are sent in turn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from bus.messages import Announcement
from bus.scopes import Scope
from pdp.warrant import Warrant

ANNOUNCE_SECONDS = 1.0
"""How often a replica announces something."""
ANNOUNCE_TTL = 3.5
"""How long an announcement counts after it should have been repeated."""
SIGN_SECONDS = 10.0
"""How long an announcement is repeated before it is signed anew."""
PAGE_BYTES = 16 * 1024
"""Most bytes of scopes in one announcement, unless a single scope has more."""
ROUND_SECONDS = 30.0
"""Longest time in which every page is announced once."""
PAGES_TOLD = 256
"""Most pages a second for those who ask who is there; beyond, each is told the first page only."""


class Announcer:
    """The pages of one replica, each signed every few seconds only, since many listen, and each has to verify it."""

    def __init__(self, scopes: Iterable[Scope], warrant: Warrant | None) -> None:
        self._pages = list(_pages(map(str, scopes)))
        self._warrant = warrant
        self._said: list[Announcement | None] = [None] * len(self._pages)
        self._at_once = math.ceil(len(self._pages) * ANNOUNCE_SECONDS / ROUND_SECONDS)
        turns = math.ceil(len(self._pages) / self._at_once)
        self._ttl = ANNOUNCE_TTL + (turns - 1) * ANNOUNCE_SECONDS
        self._turn = itertools.cycle(range(len(self._pages)))
        self._told = 0

    def all(self, now: float) -> list[Announcement]:
        """Every page, for when others may know nothing."""
        return [self._page(number, now) for number in range(len(self._pages))]

    def next(self, now: float) -> list[Announcement]:
        """The pages whose turn it is, one or a few: the next second begins."""
        self._told = 0
        return [self._page(next(self._turn), now) for _ in range(self._at_once)]

    def told(self, now: float) -> list[Announcement]:
        """What one who asks is told: every page, or the first while very many ask."""
        if self._told and self._told + len(self._pages) > PAGES_TOLD:
            return [self._page(0, now)]
        self._told += len(self._pages)
        return self.all(now)

    def _page(self, number: int, now: float) -> Announcement:
        scopes, said, warrant = self._pages[number], self._said[number], self._warrant
        if warrant is None:
            return Announcement(scopes, self._ttl)
        if said is None or now - said.at >= SIGN_SECONDS or said.introduction != warrant.introduction:
            said = self._said[number] = warrant.announcement(scopes, self._ttl, now)
        return said


def _pages(scopes: Iterable[str]) -> Iterator[list[str]]:
    """The scopes in pages of limited size; one page without any if there are none."""
    page: list[str] = []
    size = 0
    for scope in scopes:
        needed = len(scope.encode())
        if page and size + needed > PAGE_BYTES:
            yield page
            page, size = [], 0
        page.append(scope)
        size += needed
    yield page
