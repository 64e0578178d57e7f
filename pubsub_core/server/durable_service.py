"""Durable subscriptions: their positions are kept in a store that the brokers of a domain share.

One broker at a time delivers a durable subscription: whose name stands in its record. Another takes it up by writing
its own name there, in place of the record that it has read; from then on the one before can write nothing. Invariant:
what a record says was acknowledged was acknowledged by a client of the subject whose subscription it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import compress

import msgspec

from authz.errors import UNREADABLE
from bus.errors import BusError, NoResponders
from bus.nats import Connection
from bus.runtime import begin_work
from bus.stores import RecordChanged, RecordStore
from bus.wire import subjects
from pubsub_core.broker import Broker
from pubsub_core.delivery import Cursor, Session
from pubsub_core.errors import DurableElsewhere, DurableRefused, SessionLost
from pubsub_core.messages import Durable, parcel_of, place_of
from pubsub_core.server.catch_up_service import CatchUp
from pubsub_core.types import EventType

MAX_NAME_LENGTH = 256
"""Maximum characters of a durable subscription's name."""
MAX_DURABLES = 1_000
"""Maximum durable subscriptions of one subject."""
RETRY_SECONDS = 0.25
"""Pause before a position that could not be stored is stored again."""
REFRESH_SECONDS = 60.0
"""Seconds between two writes of a position that has not changed."""
LOOK_SECONDS = 1.0
"""Seconds between two checks whether the clients that share a durable subscription are still there."""
QUIET_SECONDS = 3.0
"""Seconds without a heartbeat after which a client may be gone."""
MAX_MISSED = 3
"""Maximum checks in a row without a listener before a client's events go to others."""
NO_STREAM = "needs a server that keeps streams"
ANOTHER = "is of `{}` with the filter `{}`: subscribe to the same, or delete it"
TOO_LONG = f"must have a name of 1 to {MAX_NAME_LENGTH} characters"
TOO_MANY = f"is one too many: a client has at most {MAX_DURABLES}"
IN_USE = "is being read at the broker `{}`: end its subscribers first"
UNKNOWN = "is not there"
SPOILT = "has a record that cannot be read: delete it, and subscribe anew"

_log = logging.getLogger("authfabric.events")


class _Record(msgspec.Struct, frozen=True):
    """What is kept of a durable subscription."""

    name: str
    type: str
    """The type's UUID."""
    type_name: str
    filter: str
    made: float
    position: int
    done: list[int] = []
    """The places beyond the position that were acknowledged."""
    broker: str = ""
    """The broker that delivers it; empty if nobody reads it."""
    lease: bytes = b""
    """Drawn whenever a broker takes it up."""
    acknowledged: float = 0.0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


def _read(data: bytes) -> _Record | None:
    """What a record says; None if it cannot be read: whoever may carry events of the domain can write it."""
    try:
        return _decode(data)
    except UNREADABLE:
        return None


@dataclass(slots=True, eq=False)
class _Hosted:
    """A durable subscription that this broker delivers."""

    key: str
    record: _Record
    number: int
    """That of its record in the store."""
    cursor: Cursor
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its record is to be written."""
    waiters: list[Callable[[], None]] = field(default_factory=list)
    """Who is told when that is done."""
    task: asyncio.Task[None] | None = None
    progress: bool = False
    """Whether something was acknowledged since the record was last written."""


class Durables:
    """The durable subscriptions that one broker delivers."""

    def __init__(self, bus: Connection, broker: Broker, place: str, doubt: Callable[[str], None]) -> None:
        self._bus = bus
        self._broker, self._setting = broker, broker.setting
        self._store = RecordStore(bus, subjects.DURABLES)
        self.rereading = CatchUp(bus, broker, place, doubt, self.left)
        self._hosted: dict[str, _Hosted] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.running_here = self._released = False
        """Whether there is a stream to read, and whether that is over."""

    def __len__(self) -> int:
        return len(self._hosted)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the length of the block."""
        self.running_here = True
        working = [begin_work(self._refresh), begin_work(self._end_gone)]
        async with self.rereading.running():
            try:
                yield
            finally:
                for each in working:
                    each.cancel()
                await self.release()

    async def release(self) -> None:
        """Take up nothing any more, and let other brokers take up what is delivered here."""
        self.running_here, self._released = False, True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await asyncio.gather(*(self._end(each) for each in tuple(self._hosted.values())))
        for task in (*self._tasks, *(each.task for each in self._hosted.values() if each.task)):
            task.cancel()

    async def take_up(
        self, session: Session, definition: EventType, filter_: str, name: str, lost: str
    ) -> Cursor:
        """The cursor of a client's durable subscription, made if there is none.

        Raises DurableElsewhere if another broker has it, DurableRefused if it is another, StoreUnavailable.
        """
        if self._released:
            raise SessionLost("the broker is about to end")
        if not self.running_here:
            raise DurableRefused(name, NO_STREAM)
        if not 0 < len(name) <= MAX_NAME_LENGTH:
            raise DurableRefused(name, TOO_LONG)
        key = self._key(session, name)
        async with self._locks.setdefault(key, asyncio.Lock()):
            hosted = self._hosted.get(key) or await self._host(key, session, definition, filter_, name, lost)
        if (hosted.record.type, hosted.record.filter) != (definition.id, filter_):
            raise DurableRefused(name, ANOTHER.format(hosted.record.type_name, hosted.record.filter))
        return hosted.cursor

    async def _host(
        self, key: str, session: Session, definition: EventType, filter_: str, name: str, lost: str
    ) -> _Hosted:
        own, now = self._setting.name, self._setting.now()
        found = await self._store.get(key)
        if found is None or not found.data:
            if await self._store.count(f"{self._below(session)}.*") >= MAX_DURABLES:
                raise DurableRefused(name, TOO_MANY)
            begin = place_of(await self.rereading.now() + 1, 0)
            record = _Record(name, definition.id, definition.name, filter_, now, begin)
        else:
            kept = _read(found.data)
            if kept is None:
                raise DurableRefused(name, SPOILT)
            if (kept.type, kept.filter) != (definition.id, filter_):
                raise DurableRefused(name, ANOTHER.format(kept.type_name, kept.filter))
            record = kept
            if record.broker not in ("", own, lost):
                raise DurableElsewhere(name, record.broker)
        record = msgspec.structs.replace(record, broker=own, lease=secrets.token_bytes(16))
        try:
            number = await self._store.write(key, _encode(record), found.number if found is not None else 0)
        except RecordChanged:
            return await self._host(key, session, definition, filter_, name, lost)
        hosted = _Hosted(key, record, number, Cursor(record.position, record.done, lambda: progress()))

        def progress() -> None:
            hosted.progress = True
            hosted.news.set()

        hosted.task = asyncio.create_task(self._save(hosted))
        self._hosted[key] = hosted
        return hosted

    def saved(self, cursor: Cursor, then: Callable[[], None]) -> bool:
        """Call back when what was acknowledged so far is stored; false if it is not for this broker to store."""
        for hosted in self._hosted.values():
            if hosted.cursor is cursor:
                hosted.waiters.append(then)
                hosted.news.set()
                return True
        return False

    async def _save(self, hosted: _Hosted) -> None:
        """Write the record whenever something was acknowledged, until another broker has taken it up."""
        while True:
            await hosted.news.wait()
            hosted.news.clear()
            if not await self._write(hosted):
                self._displaced(hosted)
                return

    async def _write(self, hosted: _Hosted, **changes: object) -> bool:
        """Write the record as things stand now; false if it is another broker's."""
        waiters, hosted.waiters = hosted.waiters, []
        progress, hosted.progress = hosted.progress, False
        position, done = hosted.cursor.position(self._broker.cursors.reached)
        at = self._setting.now() if progress else hosted.record.acknowledged
        record = msgspec.structs.replace(
            hosted.record, position=position, done=done, acknowledged=at, **changes
        )
        while True:
            try:
                hosted.number = await self._store.write(hosted.key, _encode(record), hosted.number)
                break
            except RecordChanged:
                if not await self._is_ours(hosted):
                    return False
            except BusError as error:
                _log.info("a position is not stored for the moment: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        hosted.record = record
        for each in waiters:
            each()
        return True

    async def _is_ours(self, hosted: _Hosted) -> bool:
        """Whether the record is still as this broker wrote it, if by a write whose answer was lost."""
        while True:
            try:
                found = await self._store.get(hosted.key)
                break
            except BusError:
                await asyncio.sleep(RETRY_SECONDS)
        record = _read(found.data) if found is not None and found.data else None
        if found is None or record is None or record.lease != hosted.record.lease:
            return False
        hosted.number = found.number
        return True

    def _displaced(self, hosted: _Hosted) -> None:
        """Another broker delivers it now, or it was deleted: subscribers here go there."""
        self._hosted.pop(hosted.key, None)
        for member in tuple(hosted.cursor.members):
            if (session := self._broker.sessions.get(member.session)) is not None:
                self._broker.close(session)

    def left(self, cursor: Cursor | None) -> None:
        """Somebody has left a cursor: if nobody is there any more, any broker may take it up."""
        for hosted in tuple(self._hosted.values()):
            if hosted.cursor is cursor and not hosted.cursor.members and self.running_here:
                task = asyncio.create_task(self._end_unused(hosted))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _end_unused(self, hosted: _Hosted) -> None:
        async with self._locks.setdefault(hosted.key, asyncio.Lock()):
            if not hosted.cursor.members and self._hosted.get(hosted.key) is hosted:
                await self._end(hosted)

    async def _end(self, hosted: _Hosted) -> None:
        if hosted.task is not None:
            hosted.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await hosted.task
        await self._write(hosted, broker="")
        self._hosted.pop(hosted.key, None)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            for each in self._hosted.values():
                each.news.set()
            self._locks = {key: lock for key, lock in self._locks.items() if lock.locked()}

    async def _end_gone(self) -> None:
        """End the sessions of readers that were killed, where others wait for what they have not acknowledged.

        Of them no heartbeat comes, and nobody listens for what they are sent, several times in a row: a client that
        connects again is deaf for a moment too. If one was there after all, it begins another session.
        """
        missed = Counter[str]()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            quiet = self._quiet()
            gone = await asyncio.gather(*map(self._is_gone, quiet))
            missed = Counter({each.token: missed[each.token] + 1 for each in compress(quiet, gone)})
            for each in quiet:
                if missed[each.token] >= MAX_MISSED and self._broker.sessions.get(each.token) is each:
                    self._broker.close(each)

    def _quiet(self) -> list[Session]:
        """The sessions that share a durable subscription, and of which nothing was heard for a while."""
        now, sessions = self._setting.now(), self._broker.sessions
        shared = [each.cursor.members for each in self._hosted.values() if len(each.cursor.members) > 1]
        found = [sessions.get(member.session) for members in shared for member in members]
        return [each for each in found if each is not None and now - each.heard > QUIET_SECONDS]

    async def _is_gone(self, session: Session) -> bool:
        """Whether nobody listens where a client's events are sent; one that does gives no answer to this."""
        try:
            await self._bus.ask(session.inbox, b"", LOOK_SECONDS)
        except NoResponders:
            return True
        except BusError:
            pass
        return False

    async def list(self, session: Session) -> tuple[Durable, ...]:
        """A client's durable subscriptions, by name. Raises StoreUnavailable."""
        records = await self._store.all(self._below(session))
        found = [each for record in records if record.data and (each := _read(record.data)) is not None]
        return tuple(
            Durable(
                each.name,
                each.type_name,
                each.filter,
                each.broker,
                each.made,
                each.acknowledged,
                parcel_of(each.position),
            )
            for each in sorted(found, key=lambda each: each.name)
        )

    async def delete(self, session: Session, name: str) -> None:
        """Delete a durable subscription that nobody reads. Raises DurableRefused, StoreUnavailable."""
        key = self._key(session, name)
        async with self._locks.setdefault(key, asyncio.Lock()):
            found = await self._store.get(key)
            if found is None or not found.data:
                raise DurableRefused(name, UNKNOWN)
            record = _read(found.data)
            host = "" if record is None else record.broker
            read = key in self._hosted if host == self._setting.name else host in self._broker.peers
            if read:
                raise DurableRefused(name, IN_USE.format(host))
            await self._store.erase(key)

    def _below(self, session: Session) -> str:
        """Below this stand the records of a client's subject."""
        credential = session.holder.credential
        return f"{subjects.token(self._setting.domain)}.{_digest(credential.domain, credential.name)}"

    def _key(self, session: Session, name: str) -> str:
        return f"{self._below(session)}.{_digest(name)}"


def _digest(*words: str) -> str:
    return hashlib.blake2s(_encode(words), digest_size=16).hexdigest()
