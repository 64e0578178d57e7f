"""Whatever goes by a domain's releases: each is verified, compiled beside what is running, and swapped in.

Invariants: those of `bus.follower_service`; a batch of requests is decided by one engine alone; whatever is wrong with
a release, the one before it goes on deciding until its lease ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from authz import Decision, PublicKey, Reason, Request
from authz.release import Released, ReleaseRefused
from bus.connection import Connection
from bus.feed import Entry
from bus.follower_service import DEFAULT_LEASE, Member, ReleaseFollower
from bus.messages import MemberKind, SearchPage, SearchQuery
from bus.roll_service import RollKeeper
from pdp.bundle import Bundle
from pdp.bundle_store import BundleCache
from pdp.explain import Explanation
from pdp.policy_set import PolicySet
from pdp.progress import saying_so
from pdp.service import CannotDecide, Decider

_log = logging.getLogger("authfabric.pdp")


T = TypeVar("T")


class Answering(Decider, Protocol):
    """What decides, says why, and finds what would be allowed."""

    async def explain(self, request: Request) -> Explanation: ...

    async def search(self, query: SearchQuery) -> SearchPage: ...


Build: TypeAlias = Callable[[PolicySet, int], T]
"""Makes what goes by some policies under an epoch. It is called in a thread of its own."""


@dataclass(frozen=True, slots=True)
class Following:
    """What to follow, whom to believe, and who one is."""

    domain: str
    trusted: Collection[PublicKey]
    member: str
    cache: BundleCache
    lease: float | None = DEFAULT_LEASE
    """Seconds after the store last confirmed the policies for which they are used; None: without limit."""
    kind: MemberKind = "pdp"


class PolicyFollower(ReleaseFollower, Generic[T]):
    """Something built from the newest release: `async with PolicyFollower(bus, following, build) as policies`."""

    def __init__(self, connection: Connection, following: Following, build: Build[T]) -> None:
        member = Member(
            following.member, following.kind, following.domain, following.trusted, following.lease
        )
        super().__init__(connection, member)
        self._following = following
        self._build = build
        self.made: T | None = None
        """What goes by the release in force."""
        self.on_change: list[Callable[[], None]] = []
        """Called whenever another release has come into force."""
        self.ready = asyncio.Event()
        """Whether there are policies to go by."""

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        if self._following.kind == "pdp":
            await stack.enter_async_context(
                RollKeeper(self._connection, self._following.domain, answering=True)
            )
        kept = self._kept_on_disk()
        await super().start(stack)
        if self.applied is None and kept is not None:
            await self._use(*kept)

    @property
    def current(self) -> T:
        """What goes by the policies in force. Raises CannotDecide while there are none, or their lease has ended."""
        if self.made is None:
            raise CannotDecide(f"there is no release of `{self._following.domain}` to decide by yet")
        if (ended := self.stale_for) > 0:
            since = "since the start" if ended == float("inf") else f"for {ended:.0f} s"
            problem = self.problem or "the policy store has not confirmed it"
            raise CannotDecide(f"the lease on {self.applied} has ended {since}: {problem}", Reason.STALE)
        return self.made

    @property
    def able(self) -> bool:
        """Whether there is something to decide by, under a lease."""
        return self.made is not None and self.stale_for <= 0

    async def apply(self, entry: Entry, released: Released, at: float) -> None:
        content = await self.feed.store.get(released.release.chunks)
        made = await asyncio.to_thread(self._compile, released, content)
        try:
            await asyncio.to_thread(self._following.cache.save, entry.revision, entry.data, content)
        except OSError as error:  # a full disk must not keep a revocation from coming into force
            _log.warning("%s cannot be kept on disk: %s", released, error)
        self._swap_in(released, made)

    async def _use(self, entry: Entry, released: Released, packed: bytes) -> None:
        """Prepare what was kept on disk. It is in force as soon as the store confirms it."""
        try:
            made = await asyncio.to_thread(self._compile, released, packed)
        except Exception as error:
            _log.warning("what is kept on disk is not used: %s", error)
            return
        self._swap_in(released, made)
        self._say(self.problem)

    def _swap_in(self, released: Released, made: T) -> None:
        """Go over between two messages: whoever is deciding a batch goes on with the decider it has taken."""
        self.made, self.applied = made, released
        self.ready.set()
        for action in self.on_change:
            action()

    def _kept_on_disk(self) -> tuple[Entry, Released, bytes] | None:
        try:
            kept = self._following.cache.load(self._following.domain, self._following.trusted)
        except ReleaseRefused as error:
            _log.warning("what is kept on disk is not used: %s", error)
            return None
        if kept is not None:
            self.latest = kept[1]
        return kept

    def _compile(self, released: Released, packed: bytes) -> T:
        with saying_so(f"compiling {released}"):
            bundle = Bundle.unpack(packed, released.release.bundle)
            return self._build(PolicySet.read(bundle), released.epoch)


class Follower(PolicyFollower[Answering]):
    """`async with Follower(bus, following, build) as decider`, then `await decider.ready.wait()`."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        """Decide all of them under one epoch. Raises CannotDecide while there is nothing to decide by."""
        return await self.current.decide_many(requests)

    async def explain(self, request: Request) -> Explanation:
        """Why a request is decided as it is. Raises CannotDecide as well."""
        return await self.current.explain(request)

    async def search(self, query: SearchQuery) -> SearchPage:
        """What would be allowed. Raises CannotDecide as well."""
        return await self.current.search(query)
