"""The policy feed of a domain: its releases in order, verified, and word of each new one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Self

from authz import PublicKey
from authz.release import Released, ReleaseRefused
from bus.connection import Connection, Subscription
from bus.errors import StoreUnavailable
from bus.store import ReleaseStore, Stored

_LOOKS = 8
"""Attempts to see the store at rest."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A release in the history of a domain."""

    revision: int
    """Its place in the store."""
    data: bytes
    released: Released | None
    """None if it is not verified: nobody acts on it."""
    problem: str = ""

    @property
    def epoch(self) -> int:
        """Its number; 0 if it is not verified."""
        return self.released.epoch if self.released is not None else 0


@dataclass(frozen=True, slots=True)
class Look:
    """What was newest when the store was looked at."""

    newest: Entry | None
    at: float
    """By the monotonic clock: whatever a majority of the store's servers took before this is in `newest`."""


def verify_history(
    stored: Iterable[Stored], domain: str, trusted: Collection[PublicKey], after: Released | None = None
) -> list[Entry]:
    """Each release, and what is wrong with it if anything is: it must follow the last good one before it."""
    entries: list[Entry] = []
    last = after
    for each in stored:
        try:
            released = Released.open(each.data, domain, trusted)
            if last is not None and not released.follows(last):
                raise ReleaseRefused(released.epoch, f"it does not follow {last}")
        except ReleaseRefused as error:
            entries.append(Entry(each.revision, each.data, None, error.problem))
        else:
            last = released
            entries.append(Entry(each.revision, each.data, released))
    return entries


class Feed:
    """`async with Feed(bus, domain, trusted) as feed`: what is newest, what came before, and when to look again."""

    def __init__(self, connection: Connection, domain: str, trusted: Collection[PublicKey]) -> None:
        self.domain = domain
        self.store = ReleaseStore(connection)
        self._connection = connection
        self._trusted = trusted
        self._news = asyncio.Event()
        self._subscription: Subscription | None = None
        self._looked: Stored | None = None
        self._entry: Entry | None = None
        self._mark: object = None

    async def __aenter__(self) -> Self:
        self._subscription = await self.store.listen(self.domain, self._news.set)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._subscription is not None:
            await self._subscription.cancel()

    async def news(self, seconds: float) -> None:
        """Return when there may be a new release, at the latest after so many seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)
        self._news.clear()

    def look_again(self) -> None:
        """Let whoever waits for news look at once."""
        self._news.set()

    async def history(self) -> list[Entry]:
        """The releases that are kept, oldest first. Raises StoreUnavailable, as all of these do."""
        return verify_history(await self.store.history(self.domain), self.domain, self._trusted)

    async def look(self) -> Look:
        """What is newest, and from when on that is certain. The store is read only where something has changed."""
        for _ in range(_LOOKS):
            asked = monotonic()
            position = await self.store.position()
            mark = (position.revision, position.leader, self._connection.reconnects)
            if mark == self._mark:
                return Look(self._entry, asked - position.age)
            await self.newest()
            self._mark = mark  # it counts if the store stands there still, under the same leader
        raise StoreUnavailable("it is changing too fast to be read")

    async def newest(self) -> Entry | None:
        """The newest release that is verified, with a word about a newer one that is not; None if there is none."""
        stored = await self.store.newest(self.domain)
        if stored != self._looked:
            self._entry = await self._verify(stored)
            self._looked = stored
        return self._entry

    async def since(self, released: Released) -> list[Released]:
        """The verified releases after one, oldest first."""
        found = [each.released for each in await self.history() if each.released is not None]
        hashes = [each.hash for each in found]
        return found[hashes.index(released.hash) + 1 :] if released.hash in hashes else []

    async def _verify(self, stored: Stored | None) -> Entry | None:
        if stored is None:
            return None
        entry = verify_history([stored], self.domain, self._trusted)[0]
        if entry.released is not None:
            return entry
        # Whoever can write to the store can put junk there: then what was good before still is.
        good = [each for each in await self.history() if each.released is not None]
        if not good:
            return entry
        problem = f"the entry after {good[-1].released} is refused: {entry.problem}"
        return Entry(good[-1].revision, good[-1].data, good[-1].released, problem)
