"""The relay of an outbox: publishes what stands in it, in order, and takes out what the event service has.

Whenever it is killed, or started a second time by mistake, each event reaches every subscriber once: its number is that
of its row, and what was published already is recognised by brokers, histories and subscribers. It needs a key of its
own, since numbers are told apart by publisher.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import time

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from pubsub_core.client import EventClient, Publisher
from pubsub_core.errors import InvalidEvent
from pubsub_core.outbox.table import Entry, Outbox

IDLE_SECONDS = 0.2
"""Seconds between two polls of an empty outbox."""
RETRY_SECONDS = 1.0
"""Seconds before a retry after the database was away, or events were not accepted."""

_log = logging.getLogger("authfabric.outbox")


class Relay:
    """`await Relay(engine, outbox, client).run()`."""

    def __init__(self, engine: Engine, outbox: Outbox, client: EventClient) -> None:
        self._engine = engine
        self._outbox = outbox
        self._client = client
        self._publishers: dict[str, Publisher] = {}
        self.published = 0
        """Events that were published so far."""
        self.refused = 0
        """Events that do not fit their type: they are left out, and the log says why."""

    async def run(self) -> None:
        """Publish what comes, until cancelled. Raises SessionLost if the broker has ended the session for good."""
        while True:
            try:
                found = await self.step()
            except SQLAlchemyError as error:
                _log.warning("the outbox cannot be read: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                if not found:
                    await asyncio.sleep(IDLE_SECONDS)

    async def step(self) -> int:
        """Publish the next batch; how many events it had. Raises EventError for what is not permitted, or not taken."""
        batch = await asyncio.to_thread(self._outbox.next_batch, self._engine, time())
        if not batch:
            return 0
        for name in dict.fromkeys(each.type for each in batch):
            if name not in self._publishers:
                self._publishers[name] = await self._client.publisher(name)
        await self._publish(batch)
        await asyncio.to_thread(self._outbox.remove, self._engine, batch)
        return len(batch)

    async def _publish(self, batch: Sequence[Entry]) -> None:
        """Publish a batch as it was published before, if it was: the same events, in the same bundles."""
        publisher = self._publishers[batch[0].type]
        await publisher.flush()
        sent = 0
        for each in batch:
            try:
                self._publishers[each.type].publish_as(each.id, each.time, **each.values)
                sent += 1
            except InvalidEvent as error:
                self.refused += 1
                _log.error("row %d of the outbox is left out: %s", each.id, error)
        await publisher.flush()
        self.published += sent
