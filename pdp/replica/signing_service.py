"""Batch signing of decisions in the background: for caches that learn from them, and for the audit trail.

Nobody waits for it, and nothing is signed that nobody wants. What was decided is gathered for a moment, hashed into one
tree and signed once. What comes too fast is not signed, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, time
from typing import Self, TypeAlias

from authz import Decision, Identity, Request
from authz.authority import MAX_DECISIONS, Statement, decision_hash
from authz.crypto import Tree
from bus.errors import BadMessage, NotConnected
from bus.nats import Connection, Subscription
from bus.runtime import in_background
from bus.wire import (
    MAX_WISHES,
    WISH_TTL,
    InvalidTopic,
    SharedDecision,
    SharedDecisions,
    Topic,
    pack,
    subjects,
    unpack_topic_request,
)

GATHER_SECONDS = 0.02
"""How long decisions are gathered under one signature."""
FINISH_SECONDS = 2.0
"""Maximum seconds a shutdown waits for decisions that are not signed yet."""
AT_ONCE = 64
"""Maximum decisions hashed before requests have their turn."""

Said: TypeAlias = tuple[Request, Decision]
Keep: TypeAlias = Callable[[Statement, tuple[bytes, ...]], None]
"""Takes each statement with the hashes of what it states."""

_log = logging.getLogger("authfabric.pdp")


class DecisionSigner:
    """`async with DecisionSigner(bus, domain, identity) as signer`, then `signer.observe(requests, decisions)`."""

    def __init__(
        self,
        connection: Connection,
        domain: str,
        identity: Identity,
        keep: Keep | None = None,
        limit: int = 16_384,
        *,
        later: bool = False,
    ) -> None:
        """With `keep` everything is signed, else what somebody wishes; `limit` bounds what waits for that.

        With `later` it may be given later, and the newest decisions are remembered for it.
        """
        self._connection = connection
        self._domain = domain
        self._identity = identity
        self._keep = keep
        self._limit = limit
        self._waiting: deque[Said] = deque()
        self._recent: deque[Said] | None = deque(maxlen=limit) if later and keep is None else None
        """What is signed as soon as somebody keeps it."""
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._wishes: dict[str, tuple[Topic, float]] = {}
        self._topics: list[Topic] = []
        self._stack = contextlib.AsyncExitStack()
        self.signed = 0
        """How many decisions were signed."""
        self.dropped = 0
        """How many were not, for want of time."""

    async def __aenter__(self) -> Self:
        wished = await self._connection.listen(
            subjects.wishes(self._domain), lambda s, r, data, h: self._hear(data)
        )
        self._stack.push_async_callback(self._forget, wished)
        in_background(self._stack, self._work)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            async with asyncio.timeout(FINISH_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("%d decisions are left unsigned", len(self._waiting))
        await self._stack.aclose()

    def keep(self, keep: Keep) -> None:
        """Sign everything from now on, and what was decided a moment ago."""
        self._keep = keep
        if self._recent is not None:
            self._waiting.extend(self._recent)
            self._recent = None
        if self._waiting:
            self._idle.clear()
            self._news.set()

    def observe(self, requests: Sequence[Request], decisions: Sequence[Decision]) -> None:
        """Take note of what was decided, if anybody wants it."""
        if self._recent is not None:
            self._recent.extend(s for s in zip(requests, decisions, strict=True) if s[1].decided)
        if self._keep is None and not self._topics:
            return
        if len(self._waiting) + len(requests) > self._limit:
            self.dropped += len(requests)
            return
        said = zip(requests, decisions, strict=True)
        self._waiting.extend(each for each in said if each[1].decided and self._is_wanted(each[0]))
        self._idle.clear()
        self._news.set()

    def _is_wanted(self, request: Request) -> bool:
        return self._keep is not None or any(topic.holds(request) for topic in self._topics)

    def _hear(self, payload: bytes) -> None:
        """Take note of a wish. What is not wished for again is forgotten."""
        now = monotonic()
        for text in unpack_topic_request(payload).topics:
            if text in self._wishes or len(self._wishes) < MAX_WISHES:
                with contextlib.suppress(InvalidTopic):  # a newer learner may know other kinds
                    self._wishes[text] = (Topic.parse(text, self._domain), now + WISH_TTL)
        self._forget_wishes(now)

    def _forget_wishes(self, now: float) -> None:
        self._wishes = {text: wish for text, wish in self._wishes.items() if now < wish[1]}
        self._topics = [topic for topic, _ in self._wishes.values()]

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WISH_TTL):
                    await self._news.wait()
            self._forget_wishes(monotonic())
            if self._news.is_set():
                await asyncio.sleep(GATHER_SECONDS)
                self._news.clear()
            while self._waiting:
                await self._sign()
            self._idle.set()

    async def _sign(self) -> None:
        """Sign the first of what waits, publish what is wished for, and keep the rest if that is wanted."""
        said, leaves = list[Said](), list[bytes]()
        for number in range(1, min(len(self._waiting), MAX_DECISIONS) + 1):
            each = self._waiting.popleft()
            with contextlib.suppress(
                TypeError, ValueError, OverflowError, RecursionError
            ):  # nor could it be sent
                leaves.append(decision_hash(*each))
                said.append(each)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        statement, tree = Statement.sign(self._identity, self._domain, time(), leaves)
        self.signed += len(said)
        if self._keep is not None:
            self._keep(statement, tuple(leaves))
        if self._topics:
            await self._teach(statement, tree, said)

    async def _teach(self, statement: Statement, tree: Tree, said: Sequence[Said]) -> None:
        lessons: dict[str, list[SharedDecision]] = {}
        for index, (request, decision) in enumerate(said):
            if any(topic.holds(request) for topic in self._topics):
                taught = SharedDecision(request, decision, index, tree.proof(index))
                lessons.setdefault(subjects.lesson(self._domain, request), []).append(taught)
        for number, (subject, several) in enumerate(lessons.items(), start=1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                self._connection.send(subject, pack(SharedDecisions(statement, several)))
            except (NotConnected, BadMessage) as error:
                _log.debug("a lesson is not given: %s", error)

    async def _forget(self, wished: Subscription) -> None:
        with contextlib.suppress(NotConnected):
            await wished.cancel()
