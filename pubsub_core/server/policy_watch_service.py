"""A broker's place in the policy feed: it goes by each release before it says so, and by nothing once it is cut off.

Invariants: those of `bus.feeds.release_follower`; from the moment the store announces a release until everything has
been asked anew under it, the broker is held; a release that is announced and cannot be read keeps it held; and so does
the end of the lease.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection

from authz import PublicKey
from authz.release import Released
from bus.feeds import LOOK_SECONDS, Entry, Member, ReleaseFollower
from bus.nats import Connection
from bus.stores import SECONDS
from pubsub_core.broker import Broker

OVERTIME = LOOK_SECONDS + 2 * SECONDS
"""Seconds after its lease within which a broker stops: it looks at the lease after each look at the store."""

_log = logging.getLogger("authfabric.events")


class PolicyWatch(ReleaseFollower):
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
        super().__init__(
            connection, Member(name, "broker", setting.domain, trusted, lease, overtime=OVERTIME)
        )
        self._broker = broker
        self._evolve = evolve
        self._announced = 0
        self._cut_off = False

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        subscription = await self.feed.store.listen(self.member.domain, self._hold)
        stack.push_async_callback(subscription.cancel)
        await super().start(stack)

    def _hold(self, said: bytes) -> None:
        """A release was stored: whatever it says, nothing is delivered by the one before it from now on."""
        self._announced += 1
        self._broker.hold()

    async def step(self) -> bool:
        announced = self._announced
        done = await super().step()
        if done:
            self._announced -= announced
            for _ in range(announced):
                self._broker.release()
        self._watch_lease()
        return done

    async def apply(self, entry: Entry, released: Released, at: float) -> None:
        await self._evolve(released.epoch)

    def _watch_lease(self) -> None:
        """Whoever is cut off from the policy feed may go by policies that are no more."""
        cut_off = self.stale_for > 0
        if cut_off == self._cut_off:
            return
        self._cut_off = cut_off
        if cut_off:
            _log.warning("nothing is delivered: the lease on the policies has ended: %s", self.problem)
            self._broker.hold()
        else:
            self._broker.release()
