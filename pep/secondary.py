"""The SDP in a PEP's own process: what it may answer by itself, and what it learns from what it had to ask."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from functools import cache
from pathlib import Path
from time import time

from authz import Decision, InvalidRequest, PublicKey, Reason, Request
from bus.audit import Followed
from pep.asking import Asker, Asking, Terms, decide_at_least
from pep.errors import NotOnBus
from pep.member_name import member_name
from pep.outcomes import Outcomes
from pep.trust import TRUST_VARIABLE
from sdp_cache import LeaseRules, Recycling, SecondaryPoint, SnapshotRefused
from sdp_cache.point import FeedFollower, Following, Learner, Learning
from sdp_cache.snapshots import Origin, open_snapshot

_log = logging.getLogger("authfabric.pep")
YIELD_EVERY = 1024
"""Answers in a row without asking, after which the event loop has its turn."""
_FAILURES = frozenset({Reason.NO_PDP, Reason.TIMEOUT, Reason.BUSY, Reason.STALE, Reason.NOT_CONNECTED})


class Secondary:
    """A cache in front of another decision point: it infers what it can, asks for the rest, and learns from that."""

    def __init__(
        self,
        asking: Asking,
        point: SecondaryPoint,
        feed: FeedFollower | None = None,
        trusted: Collection[PublicKey] = (),
    ) -> None:
        """Without a feed, whoever releases the policies in this process says when they change."""
        self._asking = asking
        self._feed = feed
        self._point = point
        self.learner: Learner | None = None
        """What learns from others' answers; None if nothing does."""
        self._trusted = trusted
        self.outcomes = Outcomes(point.hits)
        """What was decided, and how."""
        self._learned = 0
        self._inferred = 0

    @property
    def feed(self) -> FeedFollower:
        """What follows the releases. Raises NotOnBus if nothing does."""
        if self._feed is None:
            raise NotOnBus
        return self._feed

    @property
    def followed(self) -> Followed:
        """The release by which it answers, if it follows any."""
        applied = None if self._feed is None else self._feed.applied
        return Followed() if applied is None else Followed(applied.epoch, bytes.fromhex(applied.hash))

    @property
    def follows(self) -> bool:
        """Whether something follows the releases."""
        return self._feed is not None

    @property
    def point(self) -> SecondaryPoint:
        """What it answers from."""
        return self._point

    async def decide(self, request: Request, terms: Terms | None = None, at_least: int = 0) -> Decision:
        """By policies of the epoch `at_least` or newer ones. Raises InvalidRequest."""
        known = self.infer(request, at_least)
        if known is None:
            return await self.ask(request, terms, at_least)
        if self._inferred >= YIELD_EVERY:
            await self.give_way()
        return known

    def infer(self, request: Request, at_least: int = 0) -> Decision | None:
        """The answer that may be given without asking. What cannot be asked is left for the next one to refuse."""
        try:
            known = self._point.infer(request, time(), at_least)
        except InvalidRequest:
            return None
        if known is not None:
            self._inferred += 1
        return known

    async def give_way(self) -> None:
        """Let the event loop have its turn: it keeps the connection and the lease."""
        if self._inferred >= YIELD_EVERY:
            self._inferred = 0
            await asyncio.sleep(0)

    async def ask(self, request: Request, terms: Terms | None = None, at_least: int = 0) -> Decision:
        """Ask, and learn from the answer; where the fabric gives none, fall back on what was last known, if allowed.

        No answer counts that is older than the releases known here.
        """
        point, stamp = self._point, self._point.epoch
        decision = await decide_at_least(self._asking, request, terms, lambda: max(at_least, point.epoch))
        if decision.decided:
            self.outcomes.count(decision)
            self._learned += 1
            point.learn(request, decision, stamp, str(self._learned))
            return decision
        least = max(at_least, point.epoch)
        known = point.last_known(request, time(), least) if decision.reason in _FAILURES else None
        if known is None:
            self.outcomes.count(decision)
            return decision
        return known

    def load(self, path: Path | str) -> None:
        """Answer from a snapshot too. Raises SnapshotRefused unless a trusted key made it from the current release."""
        released = self.feed.applied
        if released is None:
            raise SnapshotRefused(f"it is not known which epoch is current: {self.feed.problem}")
        origin = Origin(released.release.domain, released.epoch, released.release.bundle)
        self._point.load(open_snapshot(path, self._trusted, origin))

    async def try_to_load(self, path: Path | str, seconds: float) -> None:
        """Load a snapshot as soon as the current epoch is known; go on without it, and say so, if that fails."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.feed.ready.wait()
        try:
            self.load(path)
        except SnapshotRefused as error:
            _log.warning("%s; decisions are asked for instead", error)


@cache
def _warn_of_no_trust() -> None:
    """Say what a service does without, once in its life."""
    _log.warning(
        "whoever answers is believed, and every decision is asked for: `trust=UNVERIFIED` says so. Name whose word"
        " counts by %s or `trust=`, such as the key that `authfabric up` prints",
        TRUST_VARIABLE,
    )


@contextlib.asynccontextmanager
async def secondary_point(
    asker: Asker, trusted: Collection[PublicKey], recycling: Recycling | None, rules: LeaseRules
) -> AsyncIterator[Secondary | None]:
    """An SDP for the length of a block; None if it may answer nothing, since there is nobody whose releases count."""
    if not trusted:
        _warn_of_no_trust()
    if recycling is None or not trusted:
        yield None
        return
    point = SecondaryPoint(recycling, rules)
    following = Following(asker.domain, trusted, member_name(asker.connection.name), rules)
    async with FeedFollower(asker.connection, point, following) as feed:
        yield Secondary(asker, point, feed, trusted)


@contextlib.asynccontextmanager
async def learning(asker: Asker, secondary: Secondary | None, topics: Sequence[str]) -> AsyncIterator[None]:
    """Learn from what others are answered, for the length of a block. Raises InvalidRequest or InvalidTopic."""
    authenticity = asker.authenticity
    if secondary is None or authenticity is None:
        raise InvalidRequest("learn", "needs `trust`, to tell whose answers count, and recycling switched on")
    deciders = authenticity.deciders
    async with Learning(asker.connection, secondary.point, deciders, asker.domain, topics) as listening:
        secondary.learner = listening.learner
        yield
