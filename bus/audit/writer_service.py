"""Writing decisions to the audit stream in the background, so that no caller waits for it who does not want to.

Recording a decision takes a moment and never waits: encoding, hashing and storing happen later, a page at a time. While
the store is away pages wait, in a bounded buffer; what does not fit is counted, and the count goes into the chain. Who
would rather wait `keep`s: for room, and for the word of the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from time import time
from types import TracebackType
from typing import Protocol, Self

import msgspec

from authz import Decision, Identity, Request
from authz.errors import UNREADABLE
from bus.audit.masking import Mask
from bus.audit.records import Disclosure, Head, SignedHead, Vouched, sign_head, writer_name
from bus.audit.trail import AuditTrail
from bus.errors import BusError
from bus.runtime import Work, begin_work

GATHER_SECONDS = 0.05
"""How long records are gathered into one page."""
PAGE_RECORDS = 128
PAGE_BYTES = 256 * 1024
AGAIN_SECONDS = 1.0
HEAD_SECONDS = 1.0
"""Minimum seconds between two signed heads of a writer."""
FINISH_SECONDS = 2.0
"""Maximum seconds a shutdown waits for records that are not stored yet."""

_log = logging.getLogger("authfabric.audit")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Request).decode


class PageStore(Protocol):
    """Where pages go: the stream, or a file."""

    async def append(self, writer: str, records: Sequence[bytes], key: str) -> int: ...

    async def put_head(self, writer: str, head: bytes) -> None: ...


class AuditWriter:
    """`async with AuditWriter(store, name) as audit`, then `audit.record(request, decision)`."""

    def __init__(self, store: PageStore, name: str, limit: int = 10_000, mask: Mask | None = None) -> None:
        """The writer's name is this one, with the mark of a new key; `limit` bounds what waits to be stored.

        What the mask hides is in no record.
        """
        self._identity = Identity.generate()
        self.trail = AuditTrail(writer_name(name, self._identity.public), limit, mask)
        self.stored = 0
        """The number of the newest record that the store has acknowledged."""
        self.problem = ""
        self._page = 0
        self._kept = Head()
        self._said = Head()
        self._accounted = 0
        """What of the trail is in stored records, or counted there as missing."""
        self._store = store
        self._waiting = asyncio.Event()
        self._advanced = asyncio.Event()
        self._left: list[tuple[list[bytes], int]] = []
        """Pages that are chained and not stored, each with the number of its first record."""
        self._entering = asyncio.Lock()
        """Held by whoever waits for room, so that those who came first go in first."""
        self._keeping: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who waits for the store to have what: in that order."""
        self._works: list[Work] = []

    async def __aenter__(self) -> Self:
        self._works = [begin_work(each) for each in (self._write, self._keep_saying)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                while len(self.trail) or self.stored < self.trail.head.sequence:
                    self._waiting.set()
                    await asyncio.sleep(GATHER_SECONDS / 5)
        for work in self._works:
            work.cancel()
        if lost := self.trail.noted - self._accounted:
            _log.error("%d decisions of `%s` were not recorded: %s", lost, self.trail.writer, self.problem)
        if self.trail.noted:
            await self._say_head(closed=True)

    def record(self, request: Request, decision: Decision) -> None:
        """Take note of a decision that is being given."""
        self.trail.record(request, decision, time())
        if not self._waiting.is_set():
            self._waiting.set()

    async def keep(self, several: Iterable[tuple[Request, Decision]], until: float) -> list[int]:
        """Record decisions as soon as there is room; return when the store `has` them, or at the loop's time `until`.

        A mark for each, to ask `has` by; fewer if the time was over before there was room for all.
        """
        marks: list[int] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                for request, decision in several:
                    marks.append(await self._enter(request, decision))
                if marks and (last := max(marks)) > self._accounted:
                    stored = asyncio.get_running_loop().create_future()
                    self._keeping.append((last, stored))
                    await stored
        return marks

    def has(self, mark: int) -> bool:
        """Whether the store has what was given this mark."""
        return 0 < mark <= self._accounted and mark not in self.trail.unrecordable

    async def _enter(self, request: Request, decision: Decision) -> int:
        """Note a decision as soon as there is room; 0 for one that cannot be recorded."""
        if not request.is_plain():
            try:  # what the caller alters meanwhile is recorded as it was asked
                request = _decode(_encode(request))
            except (*UNREADABLE, TypeError, ValueError, OverflowError):
                self.trail.miss()
                self._waiting.set()
                return 0
        async with self._entering:
            while self.trail.full:
                self._advanced.clear()
                await self._advanced.wait()
            self.record(request, decision)
            return self.trail.noted

    def vouch(self, vouched: Vouched) -> None:
        """Take note of what a PDP states about decisions."""
        self.trail.vouch(vouched, time())
        self._waiting.set()

    def disclose(self, disclosed: Disclosure) -> None:
        """Take note of what somebody was shown."""
        self.trail.disclose(disclosed, time())
        if not self._waiting.is_set():
            self._waiting.set()

    async def recorded(self) -> bool:
        """Return when the store has everything that was noted so far: whether nothing of it was dropped."""
        wanted, dropped = self.trail.head.sequence + len(self.trail), self.trail.dropped
        while self.stored < wanted and (len(self.trail) or self.stored < self.trail.head.sequence):
            self._advanced.clear()
            await self._advanced.wait()
        return self.stored >= wanted and self.trail.dropped == dropped

    async def _write(self) -> None:
        await self._store_left()  # if this was started again
        while True:
            await self._waiting.wait()
            await asyncio.sleep(0 if self._keeping else GATHER_SECONDS)
            self._waiting.clear()
            while records := self.trail.drain(time(), PAGE_RECORDS):
                first = self.trail.head.sequence - len(records) + 1
                for page in _pages(records):
                    self._left.append((page, first))
                    first += len(page)
                await self._store_left()

    async def _store_left(self) -> None:
        while self._left:
            await self._append(*self._left[0])
            del self._left[0]
        self._kept, self._accounted = self.trail.head, self.trail.chained
        self._tell_who_keeps()

    async def _append(self, page: list[bytes], first: int) -> None:
        """Store a page, however long it takes; callers do not wait for it."""
        while True:
            try:
                self._page = await self._store.append(self.trail.writer, page, str(first))
            except BusError as error:
                self._say(str(error))
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._say("")
                self.stored = first + len(page) - 1
                self._advanced.set()
                return

    def _tell_who_keeps(self) -> None:
        while self._keeping and self._keeping[0][0] <= self._accounted:
            _, stored = self._keeping.popleft()
            if not stored.done():
                stored.set_result(None)

    async def _keep_saying(self) -> None:
        while True:
            await asyncio.sleep(HEAD_SECONDS)
            if self._said != self._kept or self.problem:
                await self._say_head()

    async def _say_head(self, *, closed: bool = False) -> None:
        """Sign where the chain stands in the store, so that nothing before that is cut off unseen.

        How many decisions were given since and are in no stored record is said with it: if this is the last word, they
        are lost.
        """
        kept = self._kept
        lost = self.trail.noted - self._accounted
        signed = SignedHead(self.trail.writer, *kept, self._page, closed, lost)
        with contextlib.suppress(BusError):  # the next one says as much, and more
            await self._store.put_head(self.trail.writer, sign_head(signed, self._identity))
            self._said = kept

    def _say(self, problem: str) -> None:
        if problem and not self.problem:
            _log.warning(
                "decisions wait to be audited: %s; %d were dropped so far", problem, self.trail.dropped
            )
        elif self.problem and not problem:
            _log.warning("decisions are audited again; %d were dropped so far", self.trail.dropped)
        self.problem = problem


def _pages(records: list[bytes]) -> list[list[bytes]]:
    """The records in messages of a bearable size."""
    pages: list[list[bytes]] = [[]]
    size = 0
    for record in records:
        if pages[-1] and size + len(record) > PAGE_BYTES:
            pages.append([])
            size = 0
        pages[-1].append(record)
        size += len(record)
    return pages
