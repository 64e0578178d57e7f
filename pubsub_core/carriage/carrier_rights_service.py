"""Follows vouches, and makes the consumers of brokers: each reads what it may carry, and fetches it itself.

Runs beside the access control service, with its connection. What is known comes from the records of brokers alone, so
any number of replicas say the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from time import time

import msgspec

from authz import PublicKey
from bus.errors import BusError
from bus.nats import Connection
from bus.runtime import in_background
from bus.server import Carried
from bus.services import Limits, responding_by_subject
from bus.stores import (
    MAX_FILTERS,
    STORAGE,
    CarryAnswer,
    CarryRequest,
    ConsumerInfo,
    DirectKeeper,
    StorageClass,
    consumer_names,
    owner_of,
    purge_records,
    read_records,
    reader_names,
    unpack_carry_request,
)
from bus.wire import pack, subjects
from pubsub_core.carriage.carrier_rights import CarrierRights

COALESCE_SECONDS = 0.05
"""Seconds for which changes are gathered before brokers are examined."""
TICK_SECONDS = 1.0
MAX_RECORDS = 16_384
"""Maximum records of one broker."""
MAX_RECORD_BYTES = 16 * 1024**2
"""Maximum bytes of records of one broker."""
LIST_SECONDS = 5.0
_QUEUE = "access"
_BUSY = pack(CarryAnswer(problem="too many ask at once"))

_log = logging.getLogger("authfabric.access")


class _Consumers(msgspec.Struct, frozen=True):
    total: int = 0
    consumers: list[ConsumerInfo] = []


_decode_consumers = msgspec.json.Decoder(_Consumers).decode


@dataclass(slots=True)
class _Written:
    """The records below one place."""

    sizes: dict[str, int] = field(default_factory=dict)
    total: int = 0

    def add(self, subject: str, size: int) -> bool:
        """Count a record; says whether there are too many now."""
        self.total += size - self.sizes.get(subject, 0)
        self.sizes[subject] = size
        return len(self.sizes) > MAX_RECORDS or self.total > MAX_RECORD_BYTES


class CarrierRightsService:
    """Knows which types brokers may carry, for an `AccessService`."""

    def __init__(
        self,
        roots: Collection[PublicKey] = (),
        storage: Collection[StorageClass] = STORAGE,
        clock: Callable[[], float] = time,
    ) -> None:
        self.storage = tuple(storage)
        own = {each.name for each in storage} - {each.name for each in STORAGE}
        self._rights = CarrierRights(roots, own)
        self._streams = {each.stream: each.name for each in storage}
        self._clock = clock
        self._written: defaultdict[str, _Written] = defaultdict(_Written)
        """What stands below each place."""
        self._marks: dict[str, str] = {}
        """What each broker could carry when it was last looked at."""
        self._news = asyncio.Event()
        self._flooding: set[str] = set()

    def carried(self, place: str) -> Carried:
        return self._rights.carried(place, self._clock())

    @contextlib.asynccontextmanager
    async def serving(
        self, member: Connection, changed: Callable[[], None], put_out: Callable[[str], None]
    ) -> AsyncIterator[None]:
        every = subjects.broker_record(None, "*", ">")
        async with contextlib.AsyncExitStack() as stack:
            subscription = await member.listen(every, lambda subject, _, data, __: self._hear(subject, data))
            stack.push_async_callback(subscription.cancel)
            await member.flush()
            await self._read(member)
            self._marks = {each: self.carried(each).mark for each in self._rights.places}
            await stack.enter_async_context(
                responding_by_subject(
                    member,
                    [subjects.carry("*")],
                    lambda subject, payload: self._answer(member, subject, payload),
                    Limits(),
                    busy=_BUSY,
                    queue=_QUEUE,
                )
            )
            member.on_ready.append(self._news.set)
            stack.callback(member.on_ready.remove, self._news.set)
            in_background(stack, lambda: self._follow(member, changed, put_out))
            yield

    def _hear(self, subject: str, data: bytes) -> None:
        place = subject.split(".")[3]
        if self._written[place].add(subject, len(data)):
            self._flooding.add(place)
            self._news.set()
            return
        before = self._rights.version
        with contextlib.suppress(ValueError):
            self._rights.hear(subject, data)
        if self._rights.version != before:
            self._news.set()

    async def _read(self, member: Connection) -> None:
        async for subject, data in read_records(member):
            self._hear(subject, data)

    async def _follow(
        self, member: Connection, changed: Callable[[], None], put_out: Callable[[str], None]
    ) -> None:
        """Look at brokers whenever they may carry something else than before."""
        ready = True
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._news.wait()
                await asyncio.sleep(COALESCE_SECONDS)
            self._news.clear()
            try:
                if member.ready and not ready:
                    await self._read(member)
                ready = member.ready
                await self._put_out_floods(member, put_out)
                await self._look(member, changed)
            except BusError as error:
                ready = False
                _log.info("what brokers may carry is not followed for the moment: %s", error)

    async def _put_out_floods(self, member: Connection, put_out: Callable[[str], None]) -> None:
        for place in tuple(self._flooding):
            put_out(place)
            await purge_records(member, place)
            self._flooding.discard(place)
            self._written.pop(place, None)

    async def _look(self, member: Connection, changed: Callable[[], None]) -> None:
        self._rights.forget(self._clock())
        marks = {each: self.carried(each).mark for each in self._rights.places}
        if marks == self._marks:
            return
        others = {each for each, mark in marks.items() if self._marks.get(each) != mark}
        changed()
        await self._delete_consumers(member)
        for place in others:
            member.send(subjects.carried(place), marks[place].encode())
        self._marks = marks

    async def _delete_consumers(self, member: Connection) -> None:
        """Delete those that read what their brokers may not carry any more: these are given others."""
        keeper = DirectKeeper(member)
        for stream in self._streams:
            async for info in _consumers(member, stream):
                place = owner_of(info.name)
                carried = self.carried(place).with_mark(place)
                if info.filters - _allowed(info.filters, self._streams[stream], carried):
                    await keeper.delete(stream, info.name)

    async def _answer(self, member: Connection, subject: str, payload: bytes) -> bytes:
        place = subject.rpartition(".")[2]
        try:
            request = unpack_carry_request(payload)
            for what, data in request.records:
                self._rights.hear(subjects.broker_record("", place, what), data)
            answer = await self._do(member, place, request)
        except (BusError, ValueError) as error:
            answer = CarryAnswer(problem=str(error))
        return pack(answer)

    async def _do(self, member: Connection, place: str, request: CarryRequest) -> CarryAnswer:
        carried = self.carried(place)
        if not request.stream:
            self._news.set()
            return CarryAnswer(carried.mark)
        if request.stream not in self._streams or request.name not in (
            *consumer_names(place),
            *reader_names(place),
        ):
            return CarryAnswer(problem=f"there is no `{request.name}` of `{request.stream}` for this broker")
        if len(request.filters) > MAX_FILTERS:
            return CarryAnswer(problem=f"a consumer selects by {MAX_FILTERS} subjects at most")
        keeper = DirectKeeper(member)
        if request.action == "delete":
            await keeper.delete(request.stream, request.name)
            return CarryAnswer(carried.mark)
        if request.action not in ("create", "update"):
            return CarryAnswer(problem=f"`{request.action}` is not done here")
        own = carried.with_mark(place)
        filters = _allowed(request.filters, self._streams[request.stream], own)
        info = await keeper.ask(request.action, request.stream, request.name, filters, request.after)
        return CarryAnswer(carried.mark, info)


def _allowed(filters: Collection[str], storage: str, carried: Carried) -> frozenset[str]:
    """Those of the subjects that select one type each, which may be carried."""
    return frozenset(each for each in filters if _is_allowed(each, storage, carried))


def _is_allowed(filter_: str, storage: str, carried: Carried) -> bool:
    words, every = filter_.split("."), subjects.parcels(None, storage).split(".")
    if len(words) != len(every) or ">" in words:
        return False
    place = subjects.parcel_place(filter_)
    return words[:3] == every[:3] and "*" not in place and carried.allows(place.owner, place.type)


async def _consumers(member: Connection, stream: str) -> AsyncIterator[ConsumerInfo]:
    offset = 0
    while True:
        request = msgspec.json.encode({"offset": offset})
        answer = await member.ask(f"$JS.API.CONSUMER.LIST.{stream}", request, LIST_SECONDS)
        page = _decode_consumers(answer)
        for each in page.consumers:
            yield each
        offset += len(page.consumers)
        if not page.consumers or offset >= page.total:
            return
