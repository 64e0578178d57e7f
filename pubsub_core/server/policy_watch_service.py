"""A broker follows the policy feed: it reports a release once applied, and stops delivery when cut off.

Invariants: those of `bus.feeds.release_follower`; from the moment the store announces a release until everything that
it may touch has been asked anew under it, that is held at the broker: types if it is known which, otherwise everything;
a release that is announced and cannot be read keeps it held; and so does the end of the lease, also while a release is
being brought into force, which takes long where there are many subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from math import inf
from typing import TypeAlias

from authz import PublicKey
from authz.change import PolicyChange
from authz.release import Released, ReleaseRefused
from bus.errors import BusError
from bus.feeds import LOOK_SECONDS, Entry, Member, ReleaseFollower
from bus.nats import Connection
from bus.runtime import in_background
from bus.stores import SECONDS
from pubsub_core.broker import Broker

OVERTIME = LOOK_SECONDS + 2 * SECONDS
"""Maximum seconds after its lease until a broker stops: it checks the lease after each poll of the store."""
Types: TypeAlias = Collection[str] | None
"""Types by UUID; None for everything."""

_log = logging.getLogger("authfabric.events")


class PolicyWatch(ReleaseFollower):
    """Follows releases, and calls `reauthorize` with each newer epoch. Use it as an async context manager."""

    def __init__(
        self,
        connection: Connection,
        broker: Broker,
        trusted: Collection[PublicKey],
        lease: float,
        reauthorize: Callable[[int, bool, Types], Awaitable[None]],
        touched: Callable[[Sequence[PolicyChange]], Types],
    ) -> None:
        """`touched` says of which types changes may leave other rights; None if anything may be different."""
        setting = broker.setting
        name = f"{setting.name}-{secrets.token_hex(3)}"
        super().__init__(
            connection, Member(name, "broker", setting.domain, trusted, lease, overtime=OVERTIME)
        )
        self._broker = broker
        self.load = self._counted
        self._reauthorize = reauthorize
        self._touched = touched
        self._announced: list[Types] = []
        """What is held for each release that was announced, and is not in force yet."""
        self._newest: Released | None = None
        """The last release that was announced, if everything before it is known."""
        self._cut_off = False
        self._confirmed_at = -inf
        """The last instant at which a release that was being brought into force was the newest."""

    def _counted(self) -> dict[str, float]:
        """What `authfabric status` and the console tell of a broker."""
        counts = self._broker.counts
        told = {"published": counts.published, "delivered": counts.delivered, "withheld": counts.withheld}
        return {name: float(count) for name, count in {"clients": len(self._broker.sessions), **told}.items()}

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        subscription = await self.feed.store.listen(self.member.domain, self._hold)
        stack.push_async_callback(subscription.cancel)
        await super().start(stack)

    def _hold(self, said: bytes) -> None:
        """A release was stored: nothing that it may touch is delivered by the one before it from now on."""
        types = self._types_of(said)
        self._announced.append(types)
        self._broker.hold(types)

    def _types_of(self, said: bytes) -> Types:
        """The types that a release touches which follows the last one; None if that is not certain."""
        last, self._newest = self._newest if self._announced else self.applied, None
        try:
            released = Released.open(said, self.member.domain, self.member.trusted)
        except ReleaseRefused:
            return None
        if last is None or not released.succeeds(last):
            return None
        self._newest = released
        return self._touched([released.change])

    async def step(self) -> bool:
        announced = len(self._announced)
        done = await super().step()
        if done:
            over, self._announced = self._announced[:announced], self._announced[announced:]
            for types in over:
                self._broker.release(types)
        self._watch_lease()
        return done

    async def apply(self, entry: Entry, released: Released, at: float) -> None:
        between = [] if self.applied is None else await self.feed.between(self.applied, released)
        types = self._touched([each.change for each in between]) if between else None
        async with contextlib.AsyncExitStack() as stack:
            in_background(stack, partial(self._keep_lease, released))
            await self._reauthorize(released.epoch, True, types)

    async def _keep_lease(self, released: Released) -> None:
        """While a release is brought into force: what it does not touch is delivered only while it is the newest."""
        while True:
            await asyncio.sleep(self._look_seconds)
            with contextlib.suppress(BusError):
                look = await self.feed.look()
                newest = look.newest.released if look.newest is not None else None
                if newest is not None and newest.hash == released.hash:
                    self._confirmed_at = look.at
                    self.confirm(released, look.at)
            self._watch_lease()

    def confirm(self, released: Released, at: float) -> None:
        super().confirm(released, max(at, self._confirmed_at))

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
