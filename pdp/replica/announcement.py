"""What a replica says it serves: any number of scopes, in pages that are sent in turn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

import msgspec

from bus.wire import Announcement, Scope
from pdp.replica.answer_authority import AnswerAuthority

ANNOUNCE_SECONDS = 1.0
"""Seconds between two announcements of a replica while there are few."""
MOST_ANNOUNCE_SECONDS = 60.0
"""Maximum seconds between two announcements of a replica."""
ANNOUNCEMENTS_A_SECOND = 5.0
"""Announcements a second of all replicas together: every PEP hears each."""
MISSED = 2
"""Announcements missed in a row after which a page no longer counts."""
LATE_SECONDS = 1.5
"""Maximum delay of an announcement, in seconds."""
MOST_COUNTED = 65_536
"""Maximum replicas counted."""
SIGN_SECONDS = 10.0
"""Seconds for which an announcement is repeated before it is signed anew."""
PAGE_BYTES = 16 * 1024
"""Maximum bytes of scopes in one announcement, unless a single scope has more."""
ROUND_SECONDS = 30.0
"""Maximum seconds in which every page is announced once."""
PAGES_TOLD = 256
"""Maximum pages a second for discovery requests; beyond, each gets the first page only."""


class Crowd:
    """The replicas that announce themselves. The more there are, the more rarely each does."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}

    def hear(self, source: bytes, ttl: float, now: float) -> None:
        """Another has announced itself, or withdrawn if its announcement counts no longer."""
        if ttl <= 0:
            self._until.pop(source, None)
        elif source in self._until or len(self._until) < MOST_COUNTED:
            self._until[source] = now + ttl

    def interval(self, now: float) -> float:
        """How many seconds to leave between two announcements, as one among those that are there."""
        self._until = {source: until for source, until in self._until.items() if until > now}
        seconds = math.ceil((len(self._until) + 1) / ANNOUNCEMENTS_A_SECOND)
        return min(max(float(seconds), ANNOUNCE_SECONDS), MOST_ANNOUNCE_SECONDS)


class Announcer:
    """The pages of one replica, each signed every few seconds only, since many listen, and each has to verify it."""

    def __init__(
        self, scopes: Iterable[Scope], authority: AnswerAuthority | None, source: bytes = b""
    ) -> None:
        """`source` tells the replica from others."""
        self._pages = list(_pages(map(str, scopes)))
        self._authority = authority
        self._source = source
        self._said: list[Announcement | None] = [None] * len(self._pages)
        self._turn = itertools.cycle(range(len(self._pages)))
        self._told = 0
        self.interval = ANNOUNCE_SECONDS

    @property
    def interval(self) -> float:
        """Seconds between two announcements. Each says how long it counts, which follows from that."""
        return self._interval

    @interval.setter
    def interval(self, seconds: float) -> None:
        self._interval = seconds
        self._at_once = math.ceil(len(self._pages) * seconds / ROUND_SECONDS)
        turns = math.ceil(len(self._pages) / self._at_once)
        self._ttl = LATE_SECONDS + (MISSED + turns - 1) * seconds

    def withdrawal(self, now: float) -> list[Announcement]:
        """Every page, to be forgotten."""
        self._said = [None] * len(self._pages)  # what is announced later has to be newer
        return [self._sign(page, 0.0, now) for page in self._pages]

    def all(self, now: float) -> list[Announcement]:
        """Every page, for when others may know nothing."""
        return [self._page(number, now) for number in range(len(self._pages))]

    def next(self, now: float) -> list[Announcement]:
        """The pages whose turn it is, one or a few."""
        self.tell_again()
        return [self._page(next(self._turn), now) for _ in range(self._at_once)]

    def tell_again(self) -> None:
        """Begin the next second: discovery requests get every page again."""
        self._told = 0

    def told(self, now: float) -> list[Announcement]:
        """The answer to a discovery request: every page, or the first while very many ask."""
        if self._told and self._told + len(self._pages) > PAGES_TOLD:
            return [self._page(0, now)]
        self._told += len(self._pages)
        return self.all(now)

    def _page(self, number: int, now: float) -> Announcement:
        said, authority = self._said[number], self._authority
        introduction = b"" if authority is None else authority.introduction
        if (
            said is None
            or not 0 <= now - said.at < SIGN_SECONDS  # a clock may be set back
            or (said.ttl, said.introduction) != (self._ttl, introduction)
        ):
            said = self._said[number] = self._sign(self._pages[number], self._ttl, now)
        return said

    def _sign(self, scopes: list[str], ttl: float, now: float) -> Announcement:
        if self._authority is None:
            return Announcement(scopes, ttl, source=self._source)
        return msgspec.structs.replace(self._authority.announcement(scopes, ttl, now), source=self._source)


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
