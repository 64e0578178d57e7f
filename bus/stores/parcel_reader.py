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

from bus.errors import BusError, StoreUnavailable
from bus.nats import Connection
from bus.stores.parcel_delivery import Arrived, read_delivery
from bus.stores.parcel_stream import ACK_SECONDS, acknowledged_number
from bus.stores.release_store import within
from bus.wire import subjects

READERS = 4
"""How many parts of the stream one broker reads again at a time."""
BATCH = 32
"""The most parcels that are on their way to a reader."""
EXPIRES_SECONDS = 2.0
"""How long a pull request stands."""
UNUSED_SECONDS = 60.0
"""Seconds without a request after which the server removes a reader's consumer."""
PAUSE_SECONDS = 0.25
"""Pause before a consumer that was lost is made anew."""
_API = "$JS.API.CONSUMER"


class _Error(msgspec.Struct, frozen=True):
    description: str = ""


class _Made(msgspec.Struct, frozen=True):
    error: _Error | None = None


_decode_made = msgspec.json.Decoder(_Made).decode


def reader_names(owner: str) -> tuple[str, ...]:
    """The consumers by which whoever has this place reads parts of the stream again."""
    return tuple(f"{owner}-r{number}" for number in range(READERS))


class PartDiscarded(BusError):
    """The stream no longer has what was to be read: `first` is the number of the oldest parcel that it has."""

    def __init__(self, first: int) -> None:
        super().__init__(f"the stream has nothing before {first} any more")
        self.first = first


class ParcelReader:
    """One consumer by which parts of the stream are read again, one after the other."""

    def __init__(self, connection: Connection, domain: str, owner: str, name: str) -> None:
        """`owner` is the place below which marks are published, `name` that of the consumer."""
        self._connection = connection
        self._mark = subjects.mark(domain, owner)
        self._name = name
        self._run = 0
        """How often a consumer was made: each delivers to a place of its own."""

    async def mark(self) -> int:
        """Publish a mark; returns its number. Raises StoreUnavailable."""
        return await acknowledged_number(self._connection, self._mark, b"")

    async def ends(self) -> tuple[int, int]:
        """The numbers of the oldest and the newest parcel. Raises StoreUnavailable."""
        state = (await within(self._connection.jetstream().stream_info(subjects.PARCELS))).state
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
        config = {
            "durable_name": self._name,
            "name": self._name,
            "filter_subjects": sorted({*wanted, self._mark}),
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "inactive_threshold": int(UNUSED_SECONDS * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
        }
        request = {"stream_name": subjects.PARCELS, "config": config, "action": "create"}
        await self._connection.ask(f"{_API}.DELETE.{subjects.PARCELS}.{self._name}", b"", ACK_SECONDS)
        answer = await self._connection.ask(
            f"{_API}.CREATE.{subjects.PARCELS}.{self._name}", msgspec.json.encode(request), ACK_SECONDS
        )
        try:
            made = _decode_made(answer)
        except msgspec.DecodeError as error:
            raise StoreUnavailable(str(error)) from None
        if made.error is not None:
            raise StoreUnavailable(made.error.description)

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
                self._connection.send(f"{_API}.MSG.NEXT.{subjects.PARCELS}.{self._name}", request, place)
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
