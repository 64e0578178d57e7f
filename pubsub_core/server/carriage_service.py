"""The carriage of a running broker: parcels, read from the streams as far as it keeps up, and others' records."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from functools import partial
from time import monotonic

from authz import PublicKey
from bus.errors import BusError
from bus.nats import Connection, own_carried_mark
from bus.runtime import in_background
from bus.stores import (
    MAX_FILTERS,
    Arrived,
    AskingKeeper,
    CarryRequest,
    Consumer,
    DirectKeeper,
    acknowledged_number,
    ask_time,
    open_carriage,
    read_records,
    writer,
)
from bus.wire import subjects
from pubsub_core.broker import Broker
from pubsub_core.carriage import NotVouched, UnknownBrokers, word_record

RETRY_SECONDS = 1.0
START_SECONDS = 10.0
"""Maximum seconds a starting broker waits for the streams."""
GRACE_SECONDS = 10.0
"""Seconds after a restart in which earlier subscriptions are still read for: clients come again."""
MAX_ALIGNING = 20
"""Maximum renewals of a connection until it holds the rights that the access control service gives."""
CLOCK_SECONDS = 5.0
"""Seconds between two readings of the servers' clock."""
ALIGN_SECONDS = 0.1
"""Pause between renewals: replicas of the service hear of vouches one after the other."""

_log = logging.getLogger("authfabric.events")


def place_of(connection: Connection, broker: PublicKey) -> str:
    """The subject token of a broker's records and consumers, to which permissions refer."""
    return subjects.place(broker) if connection.credentials is None else writer(connection)


class _StreamReader:
    """What the consumer of one storage class reads, handed to the carriage."""

    def __init__(self, carriage: Carriage, storage: str) -> None:
        self._carriage = carriage
        self.storage = storage
        self.consumer = carriage.consumer(self)
        self.last = 0
        self.applied = -1
        """The version of what is wanted by which the server selects."""

    def arrive(self, arrived: Arrived) -> bool:
        return self._carriage.arrive(self, arrived)

    def lose(self, count: int) -> None:
        self._carriage.lose(count)

    def apply(self, version: int) -> None:
        self.applied = version
        self._carriage.apply()


class Carriage:
    """Reads the streams for a broker."""

    def __init__(
        self,
        bus: Connection,
        broker: Broker,
        place: str,
        doubt: Callable[[str], None],
        words: Collection[bytes] = (),
    ) -> None:
        """`doubt` is told of a type whose keys were not here when something came; `words` vouch for this broker."""
        self._bus = bus
        self._broker, self._setting = broker, broker.setting
        self._place = place
        self._doubt = doubt
        self._asking = AskingKeeper(bus, place) if bus.credentials is not None else None
        """Where strangers are refused, the access control service makes consumers."""
        self._readers: dict[str, _StreamReader] = {}
        self._types: frozenset[str] = frozenset()
        """What was last wanted."""
        self._started = monotonic()
        self._stack: contextlib.AsyncExitStack | None = None
        self._rights_news = asyncio.Event()
        self._words = words
        self._back = asyncio.Event()
        """Set when the connection is back."""
        broker.reading = self
        broker.receiving.newcomers = UnknownBrokers()

    def consumer(self, reader: _StreamReader) -> Consumer:
        keeper = self._asking or DirectKeeper(self._bus)
        return Consumer(self._bus, keeper, subjects.parcel_stream(reader.storage), self._place, reader)

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Read for as long as the stack is open."""
        self.look_again()
        self._bus.on_ready.append(self.look_again)
        stack.callback(self._bus.on_ready.remove, self.look_again)
        with contextlib.suppress(BusError, TimeoutError):  # it is tried again
            async with asyncio.timeout(START_SECONDS):
                await self._open()
                await self._read_records()
                await self._measure_clock()
        if self._asking is not None:
            await self._bus.listen(subjects.carried(self._place), lambda *_: self._rights_news.set())
            with contextlib.suppress(BusError):
                await self._align()
            in_background(stack, self._follow_rights)
        in_background(stack, self._catch_up)
        in_background(stack, self._watch_clock)
        self._stack = stack
        self._read(subjects.FILE)

    async def _open(self) -> None:
        """See that there are streams, and that they have what vouches for this broker before it publishes anything.

        Others may start later, or have been cut off: what the stream does not have, they would not believe.
        """
        while True:
            try:
                await open_carriage(self._bus)
                for word in self._words:
                    what, data = word_record(word)
                    subject = subjects.broker_record(self._setting.domain, self._place, what)
                    await acknowledged_number(self._bus, subject, data)
                return
            except BusError as error:
                _log.warning("there is no stream for events: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_records(self) -> None:
        """Take in what other brokers have said before."""
        async for subject, data in read_records(self._bus):
            with contextlib.suppress(ValueError):
                self._broker.presence.hear(subject, data, stored=True)
        self._broker.informed = True

    def look_again(self) -> None:
        """What others have said may not have been heard: until it is read, nobody knows whose parcels count."""
        self._broker.informed = False
        self._back.set()

    async def _catch_up(self) -> None:
        """Take in what was said while the connection was lost, whenever it is back."""
        while True:
            await self._back.wait()
            self._back.clear()
            try:
                await self._read_records()
            except BusError:
                await asyncio.sleep(RETRY_SECONDS)
                self._back.set()
            else:
                self._broker.cursors.wake()
                if self.paused and self._broker.takes:
                    self.go_on()

    async def _watch_clock(self) -> None:
        while True:
            await asyncio.sleep(CLOCK_SECONDS)
            with contextlib.suppress(BusError):
                await self._measure_clock()

    async def _measure_clock(self) -> None:
        """See by how much this broker's clock differs from that of the servers. Raises BusError."""
        asked, setting = monotonic(), self._setting
        said = await ask_time(self._bus, subjects.PARCELS, CLOCK_SECONDS)
        setting.clock.measure(said, asked, monotonic())
        setting.clock.problem(setting.now(), setting.name)

    async def _align(self) -> None:
        """Renew the connection until it may publish what this broker may carry. Raises BusError."""
        assert self._asking is not None
        request = CarryRequest(tuple(self._broker.presence.own_records()))
        for _ in range(MAX_ALIGNING):
            rights = (await self._asking.ask(request)).rights
            if await own_carried_mark(self._bus) == rights:
                return
            await self._bus.renew()
            if await own_carried_mark(self._bus) == rights:
                return
            await asyncio.sleep(ALIGN_SECONDS)
        _log.warning("this broker may not publish all that it may carry yet")

    async def _follow_rights(self) -> None:
        while True:
            await self._rights_news.wait()
            self._rights_news.clear()
            try:
                await self._align()
            except BusError as error:
                _log.info("what may be carried is not known for the moment: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._rights_news.set()
            for each in self._readers.values():
                each.consumer.ask_again()

    def _read(self, storage: str) -> _StreamReader:
        """Whoever reads the stream of a storage class; it begins when that is first needed."""
        reader = self._readers.get(storage)
        if reader is None:
            reader = self._readers[storage] = _StreamReader(self, storage)
            assert self._stack is not None
            in_background(self._stack, partial(self._run, reader))
        return reader

    async def _run(self, reader: _StreamReader) -> None:
        await self._open()
        await reader.consumer.run()

    def follow(self) -> None:
        """Keep what is read in step with what is wanted."""
        subscriptions, catalogue = self._broker.subscriptions, self._setting.catalogue
        routes = {each: values for each, values in subscriptions.routes().items() if catalogue.knows(each)}
        types = frozenset(routes)
        self._broker.receiving.forget(types & self._types)  # of what is new, nothing was owed before
        self._types = types
        wanted: dict[str, set[str]] = {each: set() for each in self._readers}
        budget = MAX_FILTERS // 2  # what was wanted before a restart is read too
        for type_, values in routes.items():
            found = self._broker.routing.filters(type_, values)
            if len(found) > max(budget, 1):
                found = self._broker.routing.filters(type_, None)
            budget -= len(found)
            wanted.setdefault(catalogue.newest(type_).place.storage, set()).update(found)
        for storage, filters in wanted.items():
            consumer = self._read(storage).consumer
            if monotonic() - self._started < GRACE_SECONDS:
                filters |= consumer.before
            consumer.want(filters, subscriptions.version)

    def settle(self) -> None:
        """Acknowledge what was dealt with: everything before the first parcel that waits for keys."""
        for storage, each in self._readers.items():
            waiting = self._broker.receiving.waiting(storage)
            each.consumer.acknowledge(each.last if waiting is None else min(each.last, waiting - 1))

    @property
    def paused(self) -> bool:
        """Whether something stays in a stream for the moment."""
        return any(each.consumer.paused for each in self._readers.values())

    def go_on(self) -> None:
        for each in self._readers.values():
            if each.consumer.paused:
                each.consumer.go_on()

    def arrive(self, reader: _StreamReader, arrived: Arrived) -> bool:
        broker = self._broker
        if not broker.takes:
            return False
        wanted = subjects.parcel_place(arrived.subject).type in self._types
        if wanted:
            own = broker.sending.is_own(arrived.id)
            try:
                broker.receive(arrived.number, arrived.subject, arrived.time, arrived.data, own)
            except NotVouched:
                self.look_again()
                return False
            except Exception:  # what one has sent must not be in the way of what others have
                _log.exception("a parcel could not be handled")
            for type_ in broker.receiving.take_awaited():
                self._doubt(type_)
        reader.last = arrived.number
        if reader.storage == subjects.FILE:
            broker.cursors.last = arrived.number
        self.settle()
        return True

    def lose(self, count: int) -> None:
        self._broker.miss_some(count)

    def apply(self) -> None:
        """The server selects by what was wanted in the oldest of the versions applied."""
        self._broker.interest.apply(min(each.applied for each in self._readers.values()))
