"""Reading part of the stream of parcels again: from a number on, up to a mark that the reader has published itself.

Consumers are served by servers that may lag behind the one that acknowledged a parcel, so that nothing more to deliver
proves nothing. A mark does: it is published into the same stream, and whoever is delivered it was delivered everything
before it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection

import msgspec

from bus.errors import BusError
from bus.nats import Connection
from bus.stores.consumer_keeper import ConsumerKeeper
from bus.stores.jetstream_api import CONSUMER, stream_info
from bus.stores.parcel_delivery import Arrived, read_delivery
from bus.stores.parcel_publisher import acknowledged_number
from bus.wire import subjects

BATCH = 32
"""Maximum parcels in flight to a reader."""
EXPIRES_SECONDS = 2.0
"""How long a pull request stands."""
PAUSE_SECONDS = 0.25
"""Pause before a consumer that was lost is made anew."""


class PartDiscarded(BusError):
    """The stream no longer has what was to be read: `first` is the number of the oldest parcel that it has."""

    def __init__(self, first: int) -> None:
        super().__init__(f"the stream has nothing before {first} any more")
        self.first = first


class ParcelReader:
    """One consumer by which parts of the stream are read again, one after the other."""

    def __init__(
        self, connection: Connection, keeper: ConsumerKeeper, domain: str, owner: str, name: str
    ) -> None:
        """`owner` is the place below which marks are published, `name` that of the consumer, which `keeper` makes."""
        self._connection = connection
        self._keeper = keeper
        self._mark = subjects.mark(domain, owner)
        self._name = name
        self._run = 0
        """How often a consumer was made: each delivers to a place of its own."""

    async def mark(self) -> int:
        """Publish a mark; returns its number. Raises StoreUnavailable."""
        return await acknowledged_number(self._connection, self._mark, b"")

    async def ends(self) -> tuple[int, int]:
        """The numbers of the oldest and the newest parcel. Raises StoreUnavailable."""
        state = (await stream_info(self._connection, subjects.PARCELS, again=True)).state
        return state.first_seq, state.last_seq

    async def read(self, after: int, until: int, wanted: Collection[str]) -> AsyncGenerator[Arrived]:
        """The parcels on these subjects after one number and up to another, which is that of a mark.

        Raises PartDiscarded if some that come next were discarded.
        """
        while after < until:
            try:
                oldest, newest = await self.ends()
                if not oldest - 1 <= after <= newest:
                    raise PartDiscarded(oldest)
                await self._make(after, wanted)
                async with contextlib.aclosing(self._delivered()) as delivered:
                    async for arrived in delivered:
                        after = arrived.number
                        if after >= until:
                            return
                        if arrived.subject != self._mark:
                            yield arrived
            except PartDiscarded:
                raise
            except BusError:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _make(self, after: int, wanted: Collection[str]) -> None:
        await self._keeper.delete(subjects.PARCELS, self._name)
        await self._keeper.put("create", subjects.PARCELS, self._name, {*wanted, self._mark}, after)

    async def _delivered(self) -> AsyncGenerator[Arrived]:
        """What the consumer delivers, in order, until something is missing, or nothing comes any more."""
        queue: asyncio.Queue[Arrived | None] = asyncio.Queue()
        count = 0

        def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            nonlocal count
            delivery = read_delivery(subject, reply, payload, headers)
            if delivery is None:
                if headers[9:12] != b"100":
                    queue.put_nowait(None)
                return
            _, delivered, arrived = delivery
            if delivered == count + 1:
                count = delivered
                queue.put_nowait(arrived)
            elif delivered > count:
                queue.put_nowait(None)

        self._run += 1
        place = f"{self._connection.own_place}.read.{self._name}.{self._run}"
        subscription = await self._connection.listen(place, hear)
        request = msgspec.json.encode({"batch": BATCH, "expires": int(EXPIRES_SECONDS * 1e9)})
        try:
            while True:
                self._connection.send(f"{CONSUMER}.MSG.NEXT.{subjects.PARCELS}.{self._name}", request, place)
                for _ in range(BATCH):
                    async with asyncio.timeout(EXPIRES_SECONDS + PAUSE_SECONDS):
                        arrived = await queue.get()
                    if arrived is None:
                        return  # as after a change of leader: a consumer that is made anew goes on
                    yield arrived
        except TimeoutError:
            return
        finally:
            with contextlib.suppress(BusError):
                await subscription.cancel()
