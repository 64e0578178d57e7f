"""Catch-up of cursors: parts of the stream read again, until they take what comes as it comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial

from bus.errors import BusError
from bus.nats import Connection
from bus.stores import Arrived, ParcelReader, PartDiscarded, keeper_for, reader_names
from bus.wire import subjects
from pubsub_core.broker import Broker
from pubsub_core.carriage import NotVouched, Read, Receiving
from pubsub_core.delivery import Cursor
from pubsub_core.events import CLOCK_MARGIN, GapReason, Missed

STALL_SECONDS = 5.0
"""Seconds without reading after which a cursor makes way for others."""
PAUSE_SECONDS = 0.25
"""Pause before something is tried again."""
LOOK_SECONDS = 1.0
"""Seconds between two checks whether a waiting cursor can go on."""
DISCARDED = "the stream no longer has what comes after the position of the subscription"


class _Stalled(Exception):
    """A cursor does not go on, and others wait."""


class CatchUp:
    """Reads the stream again for the cursors of a broker, some at a time."""

    def __init__(
        self,
        bus: Connection,
        broker: Broker,
        place: str,
        doubt: Callable[[str], None],
        left: Callable[[Cursor], None],
    ) -> None:
        """`doubt` is told of a type whose keys were not here when something came; `left` of cursors left."""
        self._broker = broker
        self._doubt = doubt
        self.left = left
        self._readers = [
            ParcelReader(bus, keeper_for(bus, place), broker.setting.domain, place, name)
            for name in reader_names(place)
        ]
        self._free: asyncio.Queue[ParcelReader] = asyncio.Queue()
        for each in self._readers:
            self._free.put_nowait(each)
        self._waiting = 0
        """How many cursors wait for a reader."""
        self._tasks: dict[Cursor, asyncio.Task[None]] = {}
        self.count = 0
        """How many parcels were read again."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the length of the block."""
        self._broker.cursors.rereading = self
        try:
            yield
        finally:
            for task in tuple(self._tasks.values()):
                task.cancel()

    async def now(self) -> int:
        """A number that everything has which is published from now on is higher than. Raises StoreUnavailable."""
        return await self._readers[0].mark()

    def begin(self, cursor: Cursor) -> None:
        """Read everything that comes after a cursor's position, until it takes what comes by itself."""
        if cursor not in self._tasks:
            task = self._tasks[cursor] = asyncio.get_running_loop().create_task(self._read(cursor))
            task.add_done_callback(lambda _: self._tasks.pop(cursor, None))

    async def _read(self, cursor: Cursor) -> None:
        while cursor.members and not cursor.live:
            self._waiting += 1
            try:
                reader = await self._free.get()
            finally:
                self._waiting -= 1
            try:
                await self._read_by(reader, cursor)
            except _Stalled:
                pass
            finally:
                self._free.put_nowait(reader)

    async def _read_by(self, reader: ParcelReader, cursor: Cursor) -> None:
        while cursor.members:
            await self._room(cursor)
            await self._broker.interest.settled()
            cursor.wait_for_mark()
            mark = await self._mark(reader)
            await self._read_until(mark, reader, cursor)
            if cursor.members and cursor.join(mark):
                self._broker.cursors.flush(cursor)
                return

    async def _mark(self, reader: ParcelReader) -> int:
        while True:
            try:
                return await reader.mark()
            except BusError:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _read_until(self, mark: int, reader: ParcelReader, cursor: Cursor) -> None:
        setting, presence = self._broker.setting, self._broker.presence
        receiving = Receiving(setting, self._broker.counts, presence.trusts, partial(self._tell, cursor))
        receiving.newcomers = self._broker.receiving.newcomers
        types = {type_ for each in cursor.members for type_ in each.granted}
        places = [setting.catalogue.newest(type_).place for type_ in types]
        wanted = {subjects.parcel(None, each, "*", "*") for each in places}
        while True:
            try:
                async with contextlib.aclosing(reader.read(cursor.after, mark, wanted)) as parcels:
                    async for arrived in parcels:
                        await self._room(cursor)
                        if not cursor.members:
                            return
                        await self._take(cursor, receiving, arrived)
                return
            except PartDiscarded as error:
                now = setting.now()
                self._tell(cursor, types, Missed(GapReason.CARRIAGE, DISCARDED, 0.0, now + CLOCK_MARGIN))
                cursor.after = error.first - 1

    async def _take(self, cursor: Cursor, receiving: Receiving, arrived: Arrived) -> None:
        """Take a parcel, when its keys are there or have not come in time."""
        self.count += 1
        reads = await self._opened(cursor, receiving, arrived)
        while receiving.waiting() is not None:
            for type_ in receiving.take_awaited():
                self._doubt(type_)
            await asyncio.sleep(PAUSE_SECONDS)
            reads += receiving.late()
        await self._room(cursor)
        cursor.read(arrived.number, self._broker.cursors.find(cursor, reads))
        self._broker.cursors.flush(cursor)

    async def _opened(self, cursor: Cursor, receiving: Receiving, arrived: Arrived) -> list[Read]:
        """What a parcel holds; of a newcomer, when what vouches for it has been read."""
        while True:
            try:
                return list(receiving.take(arrived.number, arrived.subject, arrived.time, arrived.data))
            except NotVouched:
                assert self._broker.reading is not None
                self._broker.reading.look_again()
                await self._room(cursor)

    async def _room(self, cursor: Cursor) -> None:
        """Return when something can be delivered. Raises _Stalled if that takes long, and others wait."""
        waited = 0.0
        while cursor.members and not self._can_go_on(cursor):
            cursor.news.clear()
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await cursor.news.wait()
                waited = 0.0
            except TimeoutError:
                waited += LOOK_SECONDS
                if waited >= STALL_SECONDS and self._waiting:
                    raise _Stalled from None

    def _can_go_on(self, cursor: Cursor) -> bool:
        types = {type_ for each in cursor.members for type_ in each.granted}
        return bool(types) and not cursor.crowded and not self._broker.cursors.stays(types)

    def _tell(self, cursor: Cursor, types: Collection[str], missed: Missed) -> None:
        """Tell a cursor's subscribers of events that are missing."""
        for each in cursor.members:
            session = self._broker.sessions.get(each.session)
            if session is not None:
                self._broker.gaps.tell_one(session, each, missed)
                self._broker.flush(session)
