"""The revocation feed: notices in a store that everyone reads, with a push for each new one.

The store is trusted with nothing but keeping: whoever reads a notice verifies it. Nothing is taken out but for a list
that a newer one stands for, and what has long expired, so what was missed while a connection was away is found when it
is back. Each notice stands below its issuer's key, so whoever relies on some issuers only reads theirs, however much
others have written; and then below the place of whoever submitted it, by which those are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Self

from authz import AuthFabricError, PublicKey
from authz.errors import InvalidSignature
from authz.spki import Notice
from authz.spki.capability import decode, encode
from authz.spki.revocation import MAX_NOTICE_BYTES
from bus.errors import BusError
from bus.nats import Connection
from bus.runtime import in_background
from bus.stores import Record, RecordStore
from bus.wire import subjects

LOOK_SECONDS = 10.0
"""Maximum seconds between two polls of the store, besides one at each notification."""
RETRY_SECONDS = 0.5
"""How soon it is asked again as long as it does not answer."""

_LIST = "list"
"""The last word of the name of an issuer's newest list; other notices are named by their hashes."""

_log = logging.getLogger("authfabric.bus")


class NoRoom(BusError):
    """Whoever submits a notice has as many stored as it may."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"there is no room for more than {most} notices of one submitter: send a list of its own key"
        )
        self.most = most


async def publish_notice(
    connection: Connection, notice: Notice, submitter: str = "", most: int | None = None
) -> None:
    """Let everyone know. Raises StoreUnavailable, or NoRoom if a submitter has its maximum stored already.

    Each notice stands below its issuer and whoever submitted it, which is the issuer unless it is said otherwise. A
    list takes the place of the one before it. So a newer list always fits, and so does a submitter's own.
    """
    store, data = RecordStore(connection, subjects.REVOCATIONS), encode(notice)
    submitter = submitter or subjects.place(notice.issuer)
    name = f"{notice.issuer}.{submitter}"
    record = None if notice.number is None else await store.get(f"{name}.{_LIST}")
    last = _read_list(record, notice.issuer)
    if last is not None and last.covers(notice):
        return
    is_newest = notice.number is not None and (last is None or notice.covers(last))
    fits = is_newest and (last is not None or submitter == subjects.place(notice.issuer))
    if most is not None and not fits and await store.count(f"*.{submitter}.*") >= most:
        raise NoRoom(most)
    if is_newest:
        await store.write(f"{name}.{_LIST}", data, 0 if record is None else record.number)
    else:
        await store.put(f"{name}.{hashlib.sha256(data).hexdigest()}", data)


def _read_list(record: Record | None, issuer: PublicKey) -> Notice | None:
    """The list in a record; None if there is none that its issuer has signed."""
    if record is None or not record.data:
        return None
    try:
        notice = decode(record.data, Notice, MAX_NOTICE_BYTES)
        notice.verify()
    except AuthFabricError:
        return None
    return notice if notice.issuer == issuer else None


class RevocationFeed:
    """`async with RevocationFeed(bus, accept)`: hands over every notice that is stored, and each new one."""

    def __init__(
        self, connection: Connection, accept: Callable[[Notice], object], issuer: PublicKey | None = None
    ) -> None:
        """`accept` verifies what it is given, and raises an AuthFabricError for what is not well signed.

        With an issuer, only that one's notices are read.
        """
        self._connection = connection
        self._accept = accept
        self._below = "" if issuer is None else str(issuer)
        self._store = RecordStore(connection, subjects.REVOCATIONS)
        self._news = asyncio.Event()
        self._seen = 0
        self._stack = contextlib.AsyncExitStack()
        self.refused = 0
        """How many records were no notices, or forged."""
        self.read = asyncio.Event()
        """Set while everything has been handed over that was stored when the store was last asked."""
        self.problem = "the store has not been read yet"
        """Why it is not set; nothing if it is."""
        self.read_at = -inf
        """When the store was last read to its end, by the monotonic clock."""
        self._reading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        subscription = await self._store.listen(self._news.set, self._below)
        self._stack.push_async_callback(subscription.cancel)
        self._connection.on_ready.append(self._look_again)
        self._stack.callback(self._connection.on_ready.remove, self._look_again)
        in_background(self._stack, self._follow)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(BusError):
            await self._stack.aclose()

    async def first_look(self, seconds: float) -> bool:
        """Wait until the store has been read; False if it hands over nothing for `seconds`."""
        while not self.read.is_set():
            before = self._seen
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.read.wait()
            if not self.read.is_set() and self._seen == before:
                _log.warning("what was revoked is not known yet: %s", self.problem)
                return False
        return True

    def _look_again(self) -> None:
        """Something may have been stored while the connection was away."""
        self.read.clear()
        self.problem = "the store has not been read since the connection was lost"
        self._news.set()

    async def _follow(self) -> None:
        while True:
            try:
                await self.catch_up()
            except BusError as error:
                if self._connection.keeps_nothing:  # without a store nothing can have been taken back there
                    self._set_read()
                else:
                    self.read.clear()
                    self.problem = str(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS if self.read.is_set() else RETRY_SECONDS):
                    await self._news.wait()
            self._news.clear()

    async def catch_up(self) -> None:
        """Read on, at least to what is the newest now. Raises StoreUnavailable.

        Whoever writes on and on does not keep it from ending.
        """
        async with self._reading:
            began = monotonic()
            newest = await self._store.newest(self._below)
            if newest > self._seen:
                async for record in self._store.read(self._seen, self._below):
                    self._take(record)
                    self._seen = record.number
                    if self._seen >= newest:
                        break
            self.read_at = began
            self._set_read()

    def _set_read(self) -> None:
        self.read.set()
        self.problem = ""

    def _take(self, record: Record) -> None:
        if not record.data:  # whoever takes one out takes nothing back
            return
        try:
            notice = decode(record.data, Notice, MAX_NOTICE_BYTES)
            if not record.name.startswith(f"{notice.issuer}."):
                raise InvalidSignature
            self._accept(notice)
        except AuthFabricError as error:
            self.refused += 1
            _log.warning("a revocation is not heeded: %s", error)
