"""A broker's place in the policy feed: it goes by each release before it says so, and by nothing once it is cut off.

Invariants: from the moment the store announces a release until everything has been asked anew under it, the broker is
held; a release that is announced and cannot be read keeps it held; and so does silence of the feed for longer than the
lease.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection
from time import time
from types import TracebackType
from typing import Self

from authz import PublicKey
from bus.connection import Connection
from bus.errors import BusError
from bus.feed import Feed
from bus.membership import Membership
from bus.messages import MemberStatus
from bus.store import ReleaseStore
from bus.tasks import in_background
from pubsub_core.broker import Broker

LOOK_SECONDS = 1.0

_log = logging.getLogger("authfabric.events")


class PolicyWatch:
    """`async with PolicyWatch(bus, broker, trusted, lease, evolve)`: calls `evolve` with each newer epoch."""

    def __init__(
        self,
        connection: Connection,
        broker: Broker,
        trusted: Collection[PublicKey],
        lease: float,
        evolve: Callable[[int], Awaitable[None]],
    ) -> None:
        setting = broker.setting
        name = f"{setting.name}-{secrets.token_hex(3)}"
        self._broker = broker
        self._lease = lease
        self._evolve = evolve
        self._feed = Feed(connection, setting.domain, trusted)
        self._membership = Membership(
            connection, MemberStatus(name, "broker", setting.domain, 0, lease=lease + LOOK_SECONDS)
        )
        self._releases = ReleaseStore(connection)
        self._stack = contextlib.AsyncExitStack()
        self._announced = 0
        self._heard = time()
        self._cut_off = False
        self._epoch = 0

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._feed)
        await self._stack.enter_async_context(self._membership)
        subscription = await self._releases.listen(self._broker.setting.domain, self._hold)
        self._stack.push_async_callback(subscription.cancel)
        in_background(self._stack, self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(BusError):
            await self._stack.aclose()

    def _hold(self) -> None:
        """A release was stored: whatever it says, nothing is delivered by the one before it from now on."""
        self._announced += 1
        self._broker.hold()

    async def _follow(self) -> None:
        while True:
            announced = self._announced
            try:
                await self._look()
                self._membership.say(self._epoch)
                self._release(announced)
            except BusError as error:
                self._membership.say(self._epoch, str(error))
            self._watch_lease(time())
            await self._feed.news(LOOK_SECONDS)

    async def _look(self) -> None:
        """Find the newest release, and go by it. Raises BusError."""
        asked = time()
        newest = await self._feed.newest()
        self._heard = asked
        if newest is not None and newest.released is not None and newest.epoch > self._epoch:
            await self._evolve(newest.epoch)
            self._epoch = newest.epoch

    def _release(self, count: int) -> None:
        self._announced -= count
        for _ in range(count):
            self._broker.release()

    def _watch_lease(self, now: float) -> None:
        """Whoever is cut off from the policy feed may go by policies that are no more."""
        cut_off = now - self._heard > self._lease
        if cut_off == self._cut_off:
            return
        self._cut_off = cut_off
        if cut_off:
            _log.warning("nothing is delivered: the policy feed has not been heard for %g s", self._lease)
            self._broker.hold()
        else:
            self._broker.release()
