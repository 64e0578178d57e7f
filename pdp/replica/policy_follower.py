"""Whatever goes by a domain's releases: each is verified, compiled beside what is running, and swapped in.

Invariants: those of `bus.feeds.release_follower`; a batch of requests is decided by one engine alone; whatever is wrong
with a release, the one before it goes on deciding until its lease ends. A bundle may be prepared: it is compiled, and
counts for nothing until a release names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from authz import AuthFabricError, Decision, PublicKey, Reason, Request
from authz.explanation import Explanation
from authz.release import PREPARATION, Preparation, Released, ReleaseRefused
from authz.scope import Scope
from bus.feeds import DEFAULT_LEASE, Entry, HeldRelease, Member, MemberTracker, ReleaseFollower, offering
from bus.nats import Connection
from bus.wire import MemberKind, Prepared, ScopeQuery, SearchPage, SearchQuery, subjects
from pdp.bundle import BundleCache, PackedStore, PolicySet
from pdp.releases import Compiler, report_prepared
from pdp.replica.service import CannotDecide, Decider

_log = logging.getLogger("authfabric.pdp")


T = TypeVar("T")


class Answering(Decider, Protocol):
    """What decides, says why, and finds what would be allowed."""

    async def explain(self, request: Request) -> Explanation: ...

    async def search(self, query: SearchQuery) -> SearchPage: ...

    async def scope(self, query: ScopeQuery, now: float) -> Scope: ...


Build: TypeAlias = Callable[[PolicySet, int], T]
"""Builds a decider for the policies of an epoch. Called in a thread of its own."""


@dataclass(frozen=True, slots=True)
class Following:
    """Which domain to follow, which keys to trust, and under which name."""

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
        self._compiler = Compiler(PackedStore(following.cache.path), build)
        self._applying = False
        self._preparation: tuple[bytes, asyncio.Task[None] | None] = (b"", None)
        """What it was last asked to prepare, and the work on that."""
        self.held: HeldRelease | None = None
        """The newest release that was used or kept here, with its content: what the store can be given back."""
        self.made: T | None = None
        """What goes by the release in force."""
        self.on_change: list[Callable[[], None]] = []
        """Called whenever another release has come into force."""
        self.ready = asyncio.Event()
        """Whether there are policies to go by."""

    async def start(self, stack: contextlib.AsyncExitStack) -> None:
        if self._following.kind == "pdp":
            bus, domain, member = self._connection, self._following.domain, self._following.member
            await stack.enter_async_context(MemberTracker(bus, domain, member))
            await stack.enter_async_context(offering(bus, domain, member, lambda: self.held))
        stack.push_async_callback(self._compiler.close)
        kept = self._kept_on_disk()
        await super().start(stack)
        if self.applied is None and kept is not None:
            await self._use(*kept)
        subject = subjects.prepare(self._following.domain)
        stack.push_async_callback((await self._connection.listen(subject, self._on_prepare)).cancel)

    @property
    def current(self) -> T:
        """The decider for the policies in force. Raises CannotDecide without any, or after their lease."""
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
        content = await self.feed.store.get(self.feed.domain, released.release.chunks)
        made = await self._compile(released, content)
        try:
            await asyncio.to_thread(self._following.cache.save, entry.revision, entry.data, content)
        except OSError as error:  # a full disk must not keep a revocation from coming into force
            _log.warning("%s cannot be kept on disk: %s", released, error)
        self.held = HeldRelease(entry.data, content)
        self._swap_in(released, made)

    async def _use(self, entry: Entry, released: Released, packed: bytes) -> None:
        """Prepare what was kept on disk. It is in force as soon as the store confirms it."""
        try:
            made = await self._compile(released, packed)
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
            self.latest, self.held = kept[1], HeldRelease(kept[0].data, kept[2])
        return kept

    async def _compile(self, released: Released, packed: bytes) -> T:
        self._applying = True
        try:
            return await self._compiler.make(released.release.bundle, packed, released.epoch)
        finally:
            self._applying = False

    def _on_prepare(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        """Compile what is about to be released, and say how far that is. What is in force comes first."""
        known, task = self._preparation
        if self._applying or not subjects.is_inbox(reply):
            return
        if payload != known or task is None:
            try:
                preparation, _ = PREPARATION.open(payload, self._following.trusted)
            except AuthFabricError as error:
                _log.warning("a bundle is not prepared: %s", error)
                return
            applied = self.applied.hash if self.applied is not None else ""
            if preparation.domain != self._following.domain or preparation.before != applied:
                return
            if task is not None:
                task.cancel()
            task = asyncio.create_task(self._prepare(preparation))
            self._preparation = payload, task
            task.add_done_callback(lambda done: self._say_prepared(reply, done))
        self._say_prepared(reply, task)

    async def _prepare(self, preparation: Preparation) -> None:
        content = await self.feed.store.get(self.feed.domain, preparation.chunks)
        if not self._applying:
            await self._compiler.make(preparation.bundle, content, self.epoch + 1)

    def _say_prepared(self, reply: str, task: asyncio.Task[None]) -> None:
        failure = task.exception() if task.done() and not task.cancelled() else None
        problem = "given up" if task.done() and task.cancelled() else str(failure or "")
        report_prepared(self._connection, reply, Prepared(self._following.member, task.done(), problem))


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

    async def scope(self, query: ScopeQuery, now: float) -> Scope:
        """What may be listed. Raises CannotDecide as well."""
        return await self.current.scope(query, now)
