"""Whatever follows a domain's releases: each is verified, compiled beside what is running, and swapped in.

Invariants: what decides was released by a trusted key, and never gives way to an earlier release; a batch of requests
is decided by one engine alone; whatever is wrong with a release, the one before it goes on deciding.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Generic, Literal, Protocol, Self, TypeAlias, TypeVar

from authz import AuthFabricError, Decision, PublicKey, Request
from authz.release import Released, ReleaseRefused
from bus.connection import Connection
from bus.errors import BusError
from bus.feed import Entry, Feed
from bus.membership import Membership
from bus.messages import MemberStatus, SearchPage, SearchQuery
from bus.roll_service import RollKeeper
from bus.tasks import in_background
from pdp.bundle import Bundle
from pdp.bundle_store import BundleCache
from pdp.explain import Explanation
from pdp.policy_set import PolicySet
from pdp.service import CannotDecide, Decider

LOOK_SECONDS = 1.0
"""How often the store is asked what is newest, besides whenever there is news."""

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
    max_age: float | None = None
    """Seconds after the store last confirmed the policies for which they are used; None: however long it takes."""
    kind: Literal["pdp", "roles"] = "pdp"


@dataclass(frozen=True, slots=True)
class InForce(Generic[T]):
    """A release, and what goes by it."""

    released: Released
    made: T


class ReleaseFollower(Generic[T]):
    """Something that always goes by the newest release: `async with ReleaseFollower(bus, following, build)`."""

    def __init__(self, connection: Connection, following: Following, build: Build[T]) -> None:
        self._connection = connection
        self._following = following
        self._build = build
        self._feed = Feed(connection, following.domain, following.trusted)
        status = MemberStatus(following.member, following.kind, following.domain, 0, lease=following.max_age)
        self._membership = Membership(connection, status)
        self._stack = contextlib.AsyncExitStack()
        self._applying: asyncio.Task[None] | None = None
        self._latest: Released | None = None
        """The latest release ever verified here: nothing earlier comes into force."""
        self._refused = 0
        """The epoch of a release that is no good, so that it is not tried again every second."""
        self._heard_store = float("-inf")
        self.in_force: InForce[T] | None = None
        self.on_change: list[Callable[[], None]] = []
        """What to do whenever another release has come into force."""
        self.ready = asyncio.Event()
        """Whether there are policies to go by."""
        self.problem = ""
        """What is in the way of the newest policies, if anything is."""
        self.refusals = 0
        """How many releases were refused."""

    async def __aenter__(self) -> Self:
        enter = self._stack.enter_async_context
        await enter(self._feed)
        if self._following.kind == "pdp":
            await enter(RollKeeper(self._connection, self._following.domain, answering=True))
        kept = self._kept_on_disk()
        await self._look()
        if self._applying is not None:
            await self._applying
        if self.in_force is None and kept is not None:
            await self._apply(*kept)
            self._say(self.problem)
        await enter(self._membership)
        in_background(self._stack, self._follow())
        self._stack.callback(lambda: self._applying and self._applying.cancel())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def epoch(self) -> int:
        """The epoch of the policies in force; 0 while there are none."""
        return self.in_force.released.epoch if self.in_force else 0

    @property
    def current(self) -> T:
        """What goes by the policies in force. Raises CannotDecide while there are none, or they are too old."""
        in_force, max_age = self.in_force, self._following.max_age
        if in_force is None:
            raise CannotDecide(f"there is no release of `{self._following.domain}` to decide by yet")
        if max_age is not None and monotonic() - self._heard_store > max_age:
            raise CannotDecide(f"the policy store was not heard for {max_age:g} s")
        return in_force.made

    async def _follow(self) -> None:
        while True:
            await self._feed.news(LOOK_SECONDS)
            await self._look()

    async def _look(self) -> None:
        """See what is newest, and begin to apply it."""
        asked = monotonic()
        try:
            newest = await self._feed.newest()
        except BusError as error:
            self._say(str(error))
            return
        self._heard_store = asked
        if newest is None or newest.released is None:
            self._say(newest.problem if newest else f"`{self._following.domain}` has no release yet")
            return
        if newest.epoch == self.epoch:
            self._say(newest.problem)
        elif newest.epoch != self._refused and (self._applying is None or self._applying.done()):
            # Compiling may take seconds; the store is heard meanwhile.
            self._applying = asyncio.create_task(self._apply(newest, newest.released))

    async def _apply(self, entry: Entry, released: Released, packed: bytes | None = None) -> None:
        """Bring a release into force, fetching its bundle unless it is given."""
        try:
            self._must_not_go_back(released)
            content = packed or await self._feed.store.get(released.release.chunks)
            made = await asyncio.to_thread(self._compile, released, content)
            # Between two messages: whoever is deciding a batch goes on with the decider it has taken.
            self.in_force = InForce(released, made)
            self._latest = released
            self.ready.set()
            for action in self.on_change:
                action()
            _log.info("release %d of `%s` is in force", released.epoch, self._following.domain)
            if packed is None:
                self._say(entry.problem)
                await asyncio.to_thread(self._following.cache.save, entry.epoch, entry.data, content)
        except (
            BusError
        ) as error:  # the store went away meanwhile, or the content has not arrived: try again later
            self._say(str(error))
            return
        except Exception as error:
            self._refuse(released.epoch, error)
        self._feed.look_again()

    def _kept_on_disk(self) -> tuple[Entry, Released, bytes] | None:
        try:
            kept = self._following.cache.load(self._following.domain, self._following.trusted)
        except ReleaseRefused as error:
            _log.warning("what is kept on disk is not used: %s", error)
            return None
        if kept is None:
            return None
        self._latest = kept[1]
        return kept

    def _compile(self, released: Released, packed: bytes) -> T:
        bundle = Bundle.unpack(packed, released.release.bundle)
        return self._build(PolicySet.read(bundle), released.epoch)

    def _must_not_go_back(self, released: Released) -> None:
        latest = self._latest
        if latest is None or latest.hash == released.hash:
            return
        if released.release.sequence <= latest.release.sequence:
            raise ReleaseRefused(
                released.epoch,
                f"it is number {released.release.sequence}, and number {latest.release.sequence} was verified"
                f" here already; if the store was set up anew, remove `{self._following.cache.path}`",
            )

    def _refuse(self, epoch: int, error: Exception) -> None:
        self._refused = epoch
        self.refusals += 1
        text = str(error) if isinstance(error, AuthFabricError) else f"{type(error).__name__}: {error}"
        _log.error("release %d of `%s` is not used: %s", epoch, self._following.domain, text)
        self._say(text)

    def _say(self, problem: str) -> None:
        self.problem = problem
        self._membership.say(self.epoch, problem)


class Follower(ReleaseFollower[Answering]):
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
