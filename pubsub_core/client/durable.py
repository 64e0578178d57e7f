"""Reading a durable subscription: each event until it is acknowledged, in a session of its own.

Acknowledgements go to the broker in batches, one under way at a time, until it has said that they are stored. An event
has the same place in the stream whichever broker delivers it, so they hold at any.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from bus.errors import BusError
from pubsub_core.client.subscriber import Delivered, Subscriber
from pubsub_core.errors import SessionLost
from pubsub_core.events import Gap
from pubsub_core.messages import Entry, Subscribe, Tense

if TYPE_CHECKING:
    from pubsub_core.client.session import ClientSession

LEAVE_SECONDS = 2.0
"""Maximum seconds a closing reader waits until its acknowledgements are stored."""
COALESCE_SECONDS = 0.005
"""Seconds for which acknowledgements are gathered into one message."""
RETRY_SECONDS = 0.05
"""Pause before acknowledgements are sent again."""


class DurableEvent(Delivered, frozen=True, kw_only=True):
    """An event of a durable subscription."""

    reader: DurableSubscriber
    place: int
    """Where it stands in the stream."""

    async def ack(self) -> None:
        """Acknowledge the event, and return when that is stored. Raises SessionLost."""
        await self.reader.acknowledge(self.place)


class DurableSubscriber(Subscriber):
    """What a durable subscription brings, in order, until it is acknowledged."""

    if TYPE_CHECKING:  # it is the same at run time

        async def __anext__(self) -> DurableEvent | Gap:
            """The next event, or what is missing before it."""

    def __init__(
        self, session: ClientSession, type_: str, filter_: str, durable: str, manual_ack: bool
    ) -> None:
        super().__init__(session, 1, type_, filter_)
        self.durable = durable
        self._session = session
        self._manual = manual_ack
        self._held: dict[int, int] = {}
        """The places of events that were read and are not acknowledged, with how many parts each has."""
        self._acked: list[int] = []
        """What is to be acknowledged."""
        self._due = asyncio.Event()
        self._stored: list[asyncio.Future[None]] = []
        """Who waits until that is stored."""
        self._previous = 0
        """The place of the event that was read last, if reading the next acknowledges it."""
        self._leaving = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Subscribe for the length of the block; what was acknowledged is stored at its end."""
        self._session.inbox.subscribers[self.number] = self
        await self._leaving.enter_async_context(self._session.running())
        self._session.start(self._acknowledge_all())
        try:
            yield self
        finally:
            await self.cancel()

    def resuming(self, lost: str) -> Subscribe:
        return Subscribe(self.number, self.name, self.filter, durable=self.durable, lost=lost)

    def begin_again(self) -> None:
        """What was not read comes again, here or to another who shares the subscription."""
        self.past_read = 0
        self._queue.clear()

    async def __anext__(self) -> DurableEvent | Gap:  # type: ignore[no-redef]
        if self._previous:
            self._acknowledge(self._previous)
        self._previous = 0
        return await super().__anext__()  # type: ignore[return-value]

    def _deliver(self, event: Delivered, entry: Entry) -> Delivered:
        self._held[entry.place] = self._held.get(entry.place, 0) + 1
        if not self._manual:
            self._previous = entry.place
        return DurableEvent(
            event.type,
            event.attributes,
            event.time,
            event.publisher,
            event.sequence,
            reader=self,
            place=entry.place,
        )

    def _pass_over(self, entry: Entry, tense: Tense) -> None:
        """It was read before, by another broker's delivery: acknowledged again, unless that is still to be done."""
        if not entry.place or tense:
            return
        if entry.place in self._held:
            self._held[entry.place] += 1
        else:
            self._acked.append(entry.place)
            self._due.set()

    def _acknowledge(self, place: int) -> None:
        if parts := self._held.pop(place, 0):
            self._acked += [place] * parts
            self._due.set()

    async def acknowledge(self, place: int) -> None:
        """Acknowledge the event at a place, and return when that is stored. Raises SessionLost."""
        if self._previous == place:
            self._previous = 0
        self._acknowledge(place)
        await self._flush()

    async def _flush(self) -> None:
        """Return when everything that was acknowledged so far is stored. Raises SessionLost."""
        if self._ended:
            raise SessionLost(self._ended)
        stored = asyncio.get_running_loop().create_future()
        self._stored.append(stored)
        self._due.set()
        await stored

    async def _acknowledge_all(self) -> None:
        """Send what is acknowledged, in batches; the next does not wait until one is stored."""
        before: asyncio.Task[None] | None = None
        while True:
            await self._due.wait()
            await asyncio.sleep(COALESCE_SECONDS)
            self._due.clear()
            acked, self._acked = self._acked, []
            stored, self._stored = self._stored, []
            before = self._session.start(self._send(acked, stored, before))

    async def _send(
        self, acked: list[int], stored: list[asyncio.Future[None]], before: asyncio.Task[None] | None
    ) -> None:
        """Have a batch stored, and tell those who wait for it and what was sent before it."""
        while acked:
            try:
                if not (await self._session.report(acked={self.number: acked})).fault:
                    break
            except (BusError, SessionLost):
                pass
            await asyncio.sleep(RETRY_SECONDS)
        if before is not None:
            await asyncio.wait([before])
        for each in stored:
            if not each.done():
                each.set_result(None)

    def end(self, problem: str) -> None:
        super().end(problem)
        waiting, self._stored = self._stored, []
        for each in waiting:
            if not each.done():
                each.set_exception(SessionLost(problem))

    async def cancel(self) -> None:
        """Stop reading. The subscription stays, with its position; `delete_durable` ends it for good."""
        if self.number not in self._session.inbox.subscribers:
            return
        with contextlib.suppress(TimeoutError, SessionLost):
            async with asyncio.timeout(LEAVE_SECONDS):
                if not self._ended:
                    await self._flush()
        self._session.inbox.subscribers.pop(self.number, None)
        await self._leaving.aclose()
