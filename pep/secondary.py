"""The SDP in a PEP's own process: what it may answer by itself, and what it learns from what it had to ask."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Collection, Sequence
from functools import cache
from pathlib import Path
from time import time

from authz import Decision, InvalidRequest, PublicKey, Reason, Request
from bus.connection import Connection
from pep.authenticity import Authenticity
from pep.trust_store import TRUST_VARIABLE
from sdp_cache import LeaseRules, Recycling, SecondaryPoint, SnapshotRefused
from sdp_cache.feed_service import FeedFollower, Following
from sdp_cache.learning import Learner
from sdp_cache.learning_service import Learning
from sdp_cache.snapshot import Origin
from sdp_cache.store import open_snapshot

_log = logging.getLogger("authfabric.pep")
_FAILURES = frozenset({Reason.NO_PDP, Reason.TIMEOUT, Reason.BUSY, Reason.STALE, Reason.NOT_CONNECTED})


class Secondary:
    """A secondary decision point that follows its domain's releases."""

    def __init__(self, point: SecondaryPoint, feed: FeedFollower, trusted: Collection[PublicKey]) -> None:
        self.feed = feed
        self._point = point
        self.learner: Learner | None = None
        """What learns from others' answers; None if nothing does."""
        self._trusted = trusted
        self._learned = 0

    @property
    def point(self) -> SecondaryPoint:
        """What it answers from."""
        return self._point

    @property
    def epoch(self) -> int:
        """What to stamp a question with before it is asked."""
        return self._point.epoch

    def recall(self, request: Request, at_least: int = 0) -> Decision | None:
        """The answer that may be given without asking. What cannot be asked is left for the asker to refuse."""
        try:
            return self._point.answer(request, time(), at_least)
        except InvalidRequest:
            return None

    def settle(self, request: Request, decision: Decision, stamp: int, at_least: int = 0) -> Decision:
        """Learn from an answer; where the fabric failed to give one, fall back on what was last known, if allowed."""
        if decision.decided:
            self._learned += 1
            self._point.learn(request, decision, stamp, str(self._learned))
            return decision
        known = self._point.last_known(request, time(), at_least) if decision.reason in _FAILURES else None
        return decision if known is None else known

    def load(self, path: Path) -> None:
        """Answer from a snapshot too. Raises SnapshotRefused unless a trusted key made it from the current release."""
        released = self.feed.applied
        if released is None:
            raise SnapshotRefused(f"it is not known which epoch is current: {self.feed.problem}")
        origin = Origin(released.release.domain, released.epoch, released.release.bundle)
        self._point.load(open_snapshot(path, self._trusted, origin))

    async def try_to_load(self, path: Path, seconds: float) -> None:
        """Load a snapshot as soon as the current epoch is known; go on without it, and say so, if that fails."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.feed.ready.wait(), seconds)
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
    connection: Connection,
    domain: str,
    trusted: Collection[PublicKey],
    recycling: Recycling | None,
    rules: LeaseRules,
) -> AsyncIterator[Secondary | None]:
    """An SDP for the length of a block; None if it may answer nothing, since there is nobody whose releases count."""
    if not trusted:
        _warn_of_no_trust()
    if recycling is None or not trusted:
        yield None
        return
    point = SecondaryPoint(recycling, rules)
    following = Following(domain, trusted, member_name(connection.name), rules)
    async with FeedFollower(connection, point, following) as feed:
        yield Secondary(point, feed, trusted)


@contextlib.asynccontextmanager
async def learning(
    connection: Connection,
    secondary: Secondary | None,
    authenticity: Authenticity | None,
    domain: str,
    topics: Sequence[str],
) -> AsyncIterator[None]:
    """Learn from what others are answered, for the length of a block. Raises InvalidRequest or InvalidTopic."""
    if secondary is None or authenticity is None:
        raise InvalidRequest("learn", "needs `trust`, to tell whose answers count, and recycling switched on")
    async with Learning(connection, secondary.point, authenticity.deciders, domain, topics) as listening:
        secondary.learner = listening.learner
        yield


def member_name(name: str) -> str:
    """A name that no other member of any domain has."""
    return f"{name}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
