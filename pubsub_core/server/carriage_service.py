"""The carriage of a running broker: parcels, read from the stream as far as it keeps up, and others' records."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from time import monotonic

from authz import PublicKey
from bus.errors import BusError
from bus.nats import Connection
from bus.runtime import in_background
from bus.stores import Arrived, Consumer, open_carriage, read_records, writer
from bus.wire import subjects
from pubsub_core.broker import Broker

RETRY_SECONDS = 1.0
GRACE_SECONDS = 10.0
"""Seconds after a restart in which what was wanted before is read too: clients come again."""

_log = logging.getLogger("authfabric.events")


def place_of(connection: Connection, broker: PublicKey) -> str:
    """The word below which a broker publishes records and has its consumers: the one that permissions go by."""
    return subjects.place(broker) if connection.credentials is None else writer(connection)


class Carriage:
    """Reads the stream for a broker."""

    def __init__(self, bus: Connection, broker: Broker, place: str, doubt: Callable[[str], None]) -> None:
        """`doubt` is told of a type whose keys were not here when something came."""
        self._bus = bus
        self._broker = broker
        self._doubt = doubt
        self._consumer = Consumer(bus, place, self)
        self._last = 0
        self._types: frozenset[str] = frozenset()
        """What was last wanted."""
        self._started = monotonic()
        broker.reading = self._consumer

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Read for as long as the stack is open."""
        with contextlib.suppress(BusError):  # it is tried again
            await open_carriage(self._bus)
            await self._read_records()
        for work in (self._catch_up, self._read):
            in_background(stack, work)

    async def _read_records(self) -> None:
        """Take in what other brokers have said before."""
        async for subject, data in read_records(self._bus):
            with contextlib.suppress(ValueError):
                self._broker.presence.hear(subject, data, stored=True)

    async def _catch_up(self) -> None:
        """Take in what was said while the connection was lost, whenever it is back."""
        back = asyncio.Event()
        self._bus.on_ready.append(back.set)
        try:
            while True:
                await back.wait()
                back.clear()
                try:
                    await self._read_records()
                except BusError:
                    await asyncio.sleep(RETRY_SECONDS)
                    back.set()
        finally:
            self._bus.on_ready.remove(back.set)

    async def _read(self) -> None:
        while True:
            try:
                await open_carriage(self._bus)
                break
            except BusError as error:
                _log.warning("there is no stream for events: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        await self._consumer.run()

    def follow(self) -> None:
        """Keep what is read in step with what is wanted."""
        switchboard = self._broker.switchboard
        types = frozenset(switchboard.wants())
        self._broker.receiving.forget(types & self._types)  # of what is new, nothing was owed before
        self._types = types
        wanted = {subjects.parcel(None, type_, "*") for type_ in types}
        if monotonic() - self._started < GRACE_SECONDS:
            wanted |= self._consumer.before
        self._consumer.want(wanted, switchboard.version)

    def settle(self) -> None:
        """Acknowledge what was dealt with: everything before the first parcel that waits for keys."""
        waiting = self._broker.receiving.waiting
        self._consumer.acknowledge(self._last if waiting is None else min(self._last, waiting - 1))

    def arrive(self, arrived: Arrived) -> bool:
        broker = self._broker
        if not broker.takes:
            return False
        self._last = arrived.number
        wanted = arrived.subject.split(".")[-2] in self._types
        if wanted:
            own = broker.sending.is_own(arrived.id)
            try:
                broker.receive(arrived.number, arrived.subject, arrived.time, arrived.data, own)
            except Exception:  # what one has sent must not be in the way of what others have
                _log.exception("a parcel could not be handled")
            for type_ in broker.receiving.take_awaited():
                self._doubt(type_)
        broker.cursors.last = arrived.number
        self.settle()
        return True

    def lose(self, count: int) -> None:
        self._broker.miss_some(count)

    def apply(self, version: int) -> None:
        self._broker.interest.apply(version)
