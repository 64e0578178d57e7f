"""An SDP's place in the policy feed: it follows the releases, asks the store how new they are, and says how far it is.

Invariants: what is applied was released by a trusted key, step by step without a gap, or everything was forgotten; the
lease runs from when this process itself asked the store, by its own clock; whatever is in the way, nothing is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass
from time import time
from types import TracebackType
from typing import Self

from authz import PublicKey
from authz.change import Heartbeat
from authz.release import Released
from bus.connection import Connection
from bus.errors import BusError
from bus.feed import Feed
from bus.membership import REPEAT_SECONDS, Membership
from bus.messages import MemberStatus
from bus.tasks import in_background
from sdp_cache.lease import LeaseRules
from sdp_cache.point import SecondaryPoint

LOOK_SECONDS = 1.0
"""How often the store is asked at least, besides whenever there is news; more often under a short lease."""

_log = logging.getLogger("authfabric.sdp")


@dataclass(frozen=True, slots=True)
class Following:
    """Whose releases to follow, whom to believe, and who one is."""

    domain: str
    trusted: Collection[PublicKey]
    member: str
    """A name that no other member of the domain has."""
    rules: LeaseRules


class FeedFollower:
    """Keeps a secondary point at the newest release: `async with FeedFollower(bus, point, following) as feed`."""

    def __init__(self, connection: Connection, point: SecondaryPoint, following: Following) -> None:
        rules = following.rules
        # Others take us for gone when this is over: by then the last look, which may follow the last word, is over too.
        lease = rules.seconds + rules.stale_for + REPEAT_SECONDS
        status = MemberStatus(following.member, "sdp", following.domain, 0, lease=lease)
        self._point = point
        self._domain = following.domain
        self._feed = Feed(connection, following.domain, following.trusted)
        self._membership = Membership(connection, status)
        self._look_seconds = min(LOOK_SECONDS, rules.seconds / 4)
        self._asked = float("-inf")
        self._stack = contextlib.AsyncExitStack()
        self.applied: Released | None = None
        """The release that the point stands at."""
        self.ready = asyncio.Event()
        """Whether the point has found its place in the feed."""
        self.problem = ""
        """What is in the way of serving from cache, if anything is."""

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._feed)
        await self._stack.enter_async_context(self._membership)
        in_background(self._stack, self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _follow(self) -> None:
        while True:
            self._say(await self._look())
            await self._feed.news(self._look_seconds)

    async def _look(self) -> str:
        """Ask the store what is newest, and get there; returns what is in the way."""
        asked, before = time(), self._asked
        self._asked = asked
        if asked < before and self.applied is not None:
            # The clock was set back, so that leases taken before would last too long.
            self._restart(self.applied)
        try:
            newest = await self._feed.newest()
            if newest is None or newest.released is None:
                return newest.problem if newest else f"`{self._domain}` has no release yet"
            beat = Heartbeat(newest.epoch, newest.released.release.sequence, asked)
            return await self._catch_up(newest.released, beat) or newest.problem
        except BusError as error:
            return str(error)

    async def _catch_up(self, newest: Released, beat: Heartbeat) -> str:
        applied = self.applied
        if applied is not None and applied.hash != newest.hash and beat.sequence <= applied.release.sequence:
            self._restart(applied)  # there is no telling what the PDPs go by now
            return (
                f"the store says that release {newest.epoch}, number {beat.sequence}, is the newest, but number"
                f" {applied.release.sequence} was applied here already; if it was set up anew, start this anew"
            )
        # If this is ahead, nothing is served from here on until what is missing has been applied.
        self._point.hear(beat, time())
        if applied is None or not await self._walk(applied, newest):
            self._restart(newest)
            self._point.hear(beat, time())
        self.ready.set()
        return ""

    async def _walk(self, applied: Released, newest: Released) -> bool:
        """Apply what lies between, one after the other; False if it does not lead to the newest."""
        if applied.hash == newest.hash:
            return True
        for each in [newest] if newest.follows(applied) else await self._feed.since(applied):
            self._point.receive(each.release.sequence, each.change, time())
            self.applied = applied = each
        return applied.hash == newest.hash

    def _restart(self, released: Released) -> None:
        self._point.restart(released.release.sequence, released.epoch, released.release.hierarchy)
        self.applied = released

    def _say(self, problem: str) -> None:
        """Acknowledge what is applied, and tell whoever waits for it what is in the way."""
        if problem != self.problem:
            self.problem = problem
            _log.log(
                logging.WARNING if problem else logging.INFO,
                "recycling of decisions in `%s`: %s",
                self._domain,
                problem or f"at release {self._point.epoch}",
            )
        self._membership.say(self._point.epoch, problem)
