"""Following the releases of a domain: one loop for replicas, caches and brokers.

Invariants: what is applied was released by a trusted key, and never gives way to an earlier release, to another release
of the same number, or to one that does not descend from it. The lease runs from an instant at which a majority of the
store's servers had nothing newer than what is applied here: so a release that was stored longer ago than the lease is
applied, or nothing is in force.
"""

from __future__ import annotations

import contextlib
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from math import inf
from os import getpid
from socket import gethostname
from time import monotonic, time
from typing import Self

from authz import AuthFabricError, PublicKey
from authz.release import Released
from bus.errors import BusError
from bus.feeds.held_releases_service import ask_held
from bus.feeds.release_feed import Entry, Feed, Look
from bus.feeds.release_lease import DEFAULT_LEASE, ReleaseLease
from bus.feeds.status_reporter import StatusReporter
from bus.nats import Connection, Relocation
from bus.runtime import in_background
from bus.wire import MemberDetails, MemberKind, MemberStatus

LOOK_SECONDS = 1.0
"""Maximum seconds between two polls of the store, for kinds of members that are few."""
OLD_SECONDS = 4.0
"""Maximum age of a majority's acknowledgement of the store's leader; normally at most 2 s."""
RETRY_SECONDS = 30.0
"""Time after which a release that was refused is tried again."""

_log = logging.getLogger("authfabric.releases")


@cache
def version() -> str:
    """The version of authfabric that this process runs; empty where it is not installed."""
    try:
        return metadata.version("authfabric")
    except metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True, slots=True)
class Member:
    """Who follows which releases, and whom it believes."""

    name: str
    """Unique within the domain."""
    kind: MemberKind
    domain: str
    trusted: Collection[PublicKey]
    """Whose releases count."""
    lease: float | None = DEFAULT_LEASE
    """Seconds for which a confirmation of the store counts; None: for good."""
    overtime: float = 0.0
    """Seconds after the end of its lease within which the member stops going by the release."""
    look: float = LOOK_SECONDS
    """Longest time between two looks at the store."""


class ReleaseFollower(ABC):
    """Applies each new release of a domain, holds the lease, and reports to the members: `async with` it."""

    def __init__(self, connection: Connection, member: Member) -> None:
        self.member = member
        self.feed = Feed(connection, member.domain, member.trusted)
        self.applied: Released | None = None
        """The release that is in force here."""
        self.latest: Released | None = None
        """The latest release ever verified here, which is applied or was refused: nothing else replaces it."""
        self.known: Released | None = None
        """The newest release that replicas or the store's second record have shown: the store must not be behind it."""
        self._seen = 0
        """The newest epoch that the store has shown, whether it is in force here or was refused."""
        self.problem = ""
        """What is in the way of the newest release, if anything is."""
        self.contradiction = ""
        """How the store contradicts what was verified here, if it does: then nobody knows what others go by."""
        self.refusals = 0
        """Releases refused since the start."""
        self._connection = connection
        self._relocation = Relocation(connection)
        total = None if member.lease is None else member.lease + member.overtime
        status = MemberStatus(member.name, member.kind, member.domain, 0, lease=total)
        self._reporter = StatusReporter(connection, status, self._details)
        self.load: Callable[[], dict[str, float]] = dict
        self.latencies: Callable[[], tuple[int, ...]] = tuple
        """What the process counts and measures, for whoever asks how this member is."""
        self._started = time()
        self._since = 0.0
        self._lease = ReleaseLease(member.lease)
        self._asked_around = False
        self._refused = ""
        """The hash of a release that is no good."""
        self._retry_at = 0.0
        self._look_seconds = member.look if member.lease is None else min(member.look, member.lease / 4)
        self._stack = contextlib.AsyncExitStack()

    @abstractmethod
    async def apply(self, entry: Entry, released: Released, at: float) -> None:
        """Bring a release into force. A BusError is tried again; any other error refuses the release."""

    async def hear(self, said: bytes) -> bool:
        """Whether a release announced on the bus is in force now, without a read of the store."""
        return False

    def confirm(self, released: Released, at: float) -> None:
        """The applied release was the newest at this instant of the monotonic clock."""
        self._lease.extend(at)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.feed)
        await self.start(self._stack)
        await self._stack.enter_async_context(self._reporter)
        if self.applied is not None:
            # A release that was stored since the first look may be complete already: nobody had heard of this one.
            self._lease.extend(-inf)
            await self.step()
        in_background(self._stack, self._follow)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(BusError):
            await self._stack.aclose()

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        """Look for the first time, before the other members hear of this one."""
        await self.step()

    @property
    def epoch(self) -> int:
        """The epoch of the release in force; 0 while there is none."""
        return self.applied.epoch if self.applied is not None else 0

    @property
    def lag(self) -> int:
        """How many releases are newer than the one in force, as far as is known here."""
        known = 0 if self.known is None else self.known.epoch
        return max(0, max(known, self._seen) - self.epoch)

    @property
    def stale_for(self) -> float:
        """Seconds since the lease ended; negative while it lasts."""
        return self._lease.stale_for

    async def step(self) -> bool:
        """Look at the store once, and apply what is new. Says whether that succeeded, or there is nothing to apply."""
        try:
            if not self._asked_around:
                await self._ask_around()
            look = await self.feed.look()
            self._learn(look.marked)
            if look.newest is not None:
                self._seen = look.newest.epoch
            self.contradiction = refusal = await self._contradiction(look)
        except BusError as error:
            self._relocation.missed()
            self._say(str(error))
            return False
        if monotonic() - look.at < OLD_SECONDS:
            self._relocation.found()
        else:
            self._relocation.missed()
        if refusal:
            self._refuse(refusal)
            return False
        if look.newest is None or look.newest.released is None:
            self._lease.extend(look.at)
            if look.newest is None:
                self._say(f"`{self.member.domain}` has no release yet")
            else:
                self._refuse(look.newest.problem)
            return True
        return await self._go_to(look.newest, look.newest.released, look.at)

    async def _go_to(self, entry: Entry, released: Released, at: float) -> bool:
        if self.applied is None or self.applied.hash != released.hash:
            if self._refused == released.hash and monotonic() < self._retry_at:
                return False
            try:
                await self.apply(entry, released, at)
            except BusError as error:  # the store went away, or the content has not arrived: try again
                self._say(str(error))
                return False
            except Exception as error:
                self._refused, self._retry_at = released.hash, monotonic() + RETRY_SECONDS
                self.latest = released
                text = (
                    str(error) if isinstance(error, AuthFabricError) else f"{type(error).__name__}: {error}"
                )
                self._refuse(f"{released} is not used: {text}")
                return False
            self.applied = self.latest = released
            self._since = time()
            _log.info("%s of `%s` is in force at %s", released, self.member.domain, self.member.name)
        self.confirm(released, at)
        self._refuse(entry.problem)
        return True

    async def _follow(self) -> None:
        due = self._next_look()
        while True:
            said = await self.feed.news(max(0.0, due - monotonic()))
            if monotonic() > due or not await self.hear(said):
                await self.step()
                due = self._next_look()

    def _next_look(self) -> float:
        return monotonic() + self._look_seconds * random.uniform(0.8, 1.0)  # not all at once

    async def _ask_around(self) -> None:
        """Learn from replicas which release there has been, whatever the store says: others cannot make one up.

        An SDP asks nobody: it recycles what replicas say.
        """
        if self.member.kind != "sdp":
            for offer in await ask_held(self._connection, self.member.domain, self.member.trusted):
                self._learn(offer.released)
        self._asked_around = True

    def _learn(self, released: Released | None) -> None:
        if released is not None and (self.known is None or released.epoch > self.known.epoch):
            self.known = released

    async def _contradiction(self, look: Look) -> str:
        """What is wrong if the store is not a continuation of what was verified here."""
        latest, known = self.latest, self.known
        newest = look.newest.released if look.newest is not None else None
        help_ = "put it back with `authfabric policy restore`"
        told = "" if look.newest is None else look.newest.problem
        if latest is not None and told and (newest is None or newest.epoch < latest.epoch):
            return f"{latest}, which was verified here, counts no more: {told}"
        if latest is not None and newest is None:
            return f"the store has lost {latest}, which was verified here: {help_}"
        if latest is not None and newest is not None and newest.epoch < latest.epoch:
            return f"the store has gone back to {newest} from {latest}, which was verified here: {help_}"
        if known is not None and (newest is None or newest.epoch < known.epoch):
            return f"the store is behind {known}, which others have verified: {help_}"
        if latest is None or newest is None or newest.hash == latest.hash:
            return ""
        if newest.epoch == latest.epoch:
            return f"the store has {newest} in place of {latest}, which was verified here: {help_}"
        if newest.follows(latest) or await self.feed.descends(newest, latest):
            return ""
        return f"{newest} does not descend from {latest}, which was verified here: {help_}"

    def _details(self, calls: tuple[bytes, ...]) -> MemberDetails:
        signer = b"" if self.applied is None else self.applied.signer.raw
        trust = tuple(sorted(each.raw for each in self.member.trusted))
        since = 0.0 if self.applied is None else self._since
        lacks = self._connection.unanswered.lacks
        return MemberDetails(
            calls, version(), self._started, since, trust, signer, self.load(), lacks, self.latencies(),
            getpid(), gethostname(),
        )  # fmt: skip

    def _refuse(self, problem: str) -> None:
        """Report that a release is refused, if one is, and count it once."""
        if problem and problem != self.problem:
            self.refusals += 1
            _log.error("releases of `%s`: %s", self.member.domain, problem)
        self._say(problem)

    def _say(self, problem: str) -> None:
        """Report what is applied, and what is in the way of the newest."""
        self.problem = problem
        self._reporter.say(self.epoch, self.applied.hash if self.applied is not None else "", problem)
