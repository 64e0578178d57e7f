"""The policy feed of a domain: its releases in order, verified, and word of each new one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Self

from authz import PublicKey
from authz.release import Released, ReleaseRefused, release_hash
from bus.errors import ContentMissing, StoreUnavailable
from bus.nats import Connection, Subscription
from bus.stores import ReleaseStore, Stored

_LOOKS = 8
"""Attempts to read the store without a write in between."""


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
    marked: Released | None = None
    """The newest release by the store's second record, if that is verified: the store has had this one."""


def verify_history(
    stored: Iterable[Stored], domain: str, trusted: Collection[PublicKey], after: Released | None = None
) -> list[Entry]:
    """Each release, and what is wrong with it if anything is: it must follow, or join, the last good one before it."""
    entries: list[Entry] = []
    last = after
    for each in stored:
        try:
            released = Released.open(each.data, domain, trusted)
            again = last is not None and released.hash == last.hash  # put back after damage
            if last is not None and not again and not released.follows(last):
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
        self._said = b""
        self._subscription: Subscription | None = None
        self._looked: Stored | None = None
        self._entry: Entry | None = None
        self._marked: Released | None = None
        self._seen: tuple[int, tuple[str, int]] | None = None

    async def __aenter__(self) -> Self:
        self._subscription = await self.store.listen(self.domain, self._hear)
        self._connection.on_ready.append(self.look_again)  # word of a release may have been missed
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.on_ready.remove(self.look_again)
        if self._subscription is not None:
            await self._subscription.cancel()

    async def news(self, seconds: float) -> bytes:
        """Return when there may be a new release, at the latest after `seconds`.

        The release as it was said on the bus, not verified; nothing if there was more to hear than one.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()
        said, self._said = self._said, b""
        return said

    def look_again(self) -> None:
        """Let whoever waits for news look at once."""
        self._said = b""
        self._news.set()

    def verify_anew(self) -> None:
        """Look again at what was verified before: others are trusted now."""
        self._looked, self._entry, self._marked, self._seen = None, None, None, None
        self.look_again()

    def _hear(self, data: bytes) -> None:
        self._said = b"" if self._news.is_set() else data
        self._news.set()

    async def history(self) -> list[Entry]:
        """The releases that are kept, oldest first. Raises StoreUnavailable, as all of these do."""
        return verify_history(await self.store.history(self.domain), self.domain, self._trusted)

    async def look(self) -> Look:
        """What is newest, and from when on that is certain. The store is read only where something has changed."""
        for _ in range(_LOOKS):
            asked = monotonic()
            position = await self.store.position()
            seen = (position.revision, (position.leader, self._connection.reconnects))
            if seen == self._seen:
                return Look(self._entry, asked - position.age, self._marked)
            newest = await self.newest()
            if self._seen is None or self._seen[1] != seen[1] or position.revision < (self._seen[0] or inf):
                # Perhaps these are other files than before, or were empty: is all there that has been there?
                self._marked = await self.marked()
                if position.revision and not await self.store.readable(position.revision):
                    raise StoreUnavailable("its newest entry cannot be read: it is damaged")
            self._seen = seen
            if newest is not None and newest.revision == position.revision:
                return Look(newest, asked - position.age, self._marked)
            # Another domain's entry is the newest: this one's counts if the store stands there still.
        raise StoreUnavailable("it is changing too fast to be read")

    async def marked(self) -> Released | None:
        """The newest release by the store's second record; None if there is none, or not a verified one."""
        data = await self.store.marked(self.domain)
        try:
            return Released.open(data, self.domain, self._trusted) if data else None
        except ReleaseRefused:
            return None

    async def descends(self, later: Released, earlier: Released) -> bool:
        """Whether hashes lead from one release back to another, also through those that the history keeps no longer."""
        kept = {release_hash(each.data): each.data for each in await self.store.history(self.domain)}
        ways, known = [later], set[str]()
        while ways:
            release = ways.pop()
            if release.follows(earlier):
                return True
            for name in release.predecessors:
                if release.epoch > earlier.epoch + 1 and name not in known:
                    known.add(name)
                    with contextlib.suppress(ContentMissing, ReleaseRefused):
                        data = kept.get(name) or await self.store.get(self.domain, (name,))
                        ways.append(Released.open(data, self.domain, self._trusted))
        return False

    async def newest(self) -> Entry | None:
        """The newest verified release, with a remark about a newer one that is not; None if there is none."""
        stored = await self.store.newest(self.domain)
        if stored != self._looked:
            self._entry = await self._verify(stored)
            self._looked = stored
        return self._entry

    async def between(self, earlier: Released, later: Released) -> list[Released]:
        """The releases that lead from one to another, the last included; empty if not all of them are known."""
        found = [later] if later.succeeds(earlier) else await self.since(earlier)
        steps = zip([earlier, *found], found, strict=False)
        known = found and found[-1].hash == later.hash and all(after.succeeds(each) for each, after in steps)
        return found if known else []

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
