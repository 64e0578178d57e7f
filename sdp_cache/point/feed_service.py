"""An SDP's place in the policy feed: it follows the releases, asks the store how new they are, and says how far it is.

Invariants: those of `bus.feeds.release_follower`; what is applied was applied step by step without a gap, or everything
was forgotten; whatever is in the way, nothing is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic, time

from authz import PublicKey
from authz.change import Heartbeat
from authz.release import Released, ReleaseRefused
from bus.feeds import Entry, Member, ReleaseFollower
from bus.nats import Connection
from sdp_cache.point.secondary_point import SecondaryPoint
from sdp_cache.validity import LeaseRules

LOOK_SECONDS = 2.0
"""Longest time between two looks at the store: there may be thousands who look."""

_log = logging.getLogger("authfabric.sdp")


@dataclass(frozen=True, slots=True)
class Following:
    """Whose releases to follow, whom to believe, and who one is."""

    domain: str
    trusted: Collection[PublicKey]
    member: str
    """A name that no other member of the domain has."""
    rules: LeaseRules


class FeedFollower(ReleaseFollower):
    """Keeps a secondary point at the newest release: `async with FeedFollower(bus, point, following) as feed`."""

    def __init__(self, connection: Connection, point: SecondaryPoint, following: Following) -> None:
        rules = following.rules
        super().__init__(
            connection,
            Member(
                following.member,
                "sdp",
                following.domain,
                following.trusted,
                rules.seconds,
                overtime=rules.stale_for,
                look=LOOK_SECONDS,
            ),
        )
        self._point = point
        self._clock = float("-inf")
        self.on_applied: list[Callable[[], None]] = []
        """Called when another release was applied."""
        self.ready = asyncio.Event()
        """Whether the newest release is known."""
        self._troubled = False
        """Whether a problem was the last thing to be logged."""

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Nothing: connecting does not wait for the store."""
        self.feed.look_again()

    async def step(self) -> bool:
        now, before = time(), self._clock
        self._clock = now
        if now < before and self.applied is not None:
            # The clock was set back, so that leases taken before would last too long.
            self._restart(self.applied)
        said = self.problem
        done = await super().step()
        if self.contradiction and self.applied is not None:
            self._restart(self.applied)
        if self.problem != said:
            over, self._troubled = self._troubled, bool(self.problem)
            _log.log(
                logging.WARNING
                if self.problem or over
                else logging.INFO,  # who was told of trouble hears of its end
                "recycling of decisions in `%s`: %s",
                self.member.domain,
                self.problem or f"{'again ' if over else ''}at {self.applied}",
            )
        return done

    async def apply(self, entry: Entry, released: Released, at: float) -> None:
        # From here on nothing is served until what is missing has been applied.
        self._point.hear(_beat(released, at), time())
        if self.applied is None or not await self._walk(self.applied, released):
            self._restart(released)
        for each in self.on_applied:
            each()

    async def hear(self, said: bytes) -> bool:
        """Apply a release that follows. Its lease runs from when the store was last looked at.

        Thousands may hear it at once, and each would ask the store three questions then.
        """
        if not said or self.applied is None or self.problem:
            return False
        try:
            released = Released.open(said, self.member.domain, self.member.trusted)
        except ReleaseRefused:
            return False
        if not released.follows(self.applied):
            return False
        return await self._go_to(Entry(0, said, released), released, self._lease.confirmed_at)

    def confirm(self, released: Released, at: float) -> None:
        super().confirm(released, at)
        self._point.hear(_beat(released, at), time())
        self.ready.set()

    async def _walk(self, applied: Released, newest: Released) -> bool:
        """Apply what lies between, one after the other; False if it does not lead to the newest."""
        for each in [newest] if newest.follows(applied) else await self.feed.since(applied):
            self._point.receive(each.epoch, each.change, time())
            self.applied = applied = each
        return applied.hash == newest.hash

    def _restart(self, released: Released) -> None:
        self._point.restart(released.epoch, released.epoch, released.release.hierarchy)
        self.applied = released


def _beat(released: Released, at: float) -> Heartbeat:
    """The word of the store, by the clock that leases run by."""
    return Heartbeat(released.epoch, released.epoch, time() - (monotonic() - at))
