"""A PDP replica on the bus: hears the questions it can answer, decides them, and says when it is too busy."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterable, Sequence
from time import monotonic
from types import TracebackType
from typing import Protocol, Self

import msgspec

from authz import Decision, InvalidRequest, Reason, Request
from bus.connection import Connection, Subscription
from bus.envelope import pack
from bus.errors import BadMessage, NotConnected
from bus.messages import Announcement, Answers, unpack_questions, unpack_raw_questions
from bus.scopes import Scope, widest
from bus.subjects import ANNOUNCE, DECIDING, QUEUE, ROOT, WHO, Mode, interest

ANNOUNCE_SECONDS = 1.0
ANNOUNCE_TTL = 3.5
MAX_ANNOUNCED = 256
"""A replica with more scopes than this announces only that it is there; its questions come one object at a time."""
PROBE_SECONDS = 1.0

_log = logging.getLogger("authfabric.pdp")
_decode_request = msgspec.msgpack.Decoder(Request).decode


class Decider(Protocol):
    """What decides: an engine over policies, or anything that wraps one."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]: ...


class _Work(msgspec.Struct, frozen=True, gc=False):
    requests: list[Request | InvalidRequest]
    reply: str
    arrived: float
    budget: float


class Replica:
    """Serves a decider on the bus: `async with Replica(bus, engine, scopes)`. Leaving the block drains it."""

    def __init__(
        self,
        connection: Connection,
        decider: Decider,
        scopes: Iterable[Scope],
        *,
        max_queue: int = 8192,
        workers: int = 16,
    ) -> None:
        """`max_queue` bounds the questions taken and not yet answered; `workers` the messages decided at once."""
        self.connection = connection
        self.decider = decider
        self.scopes = widest(scopes)
        self.answered = 0
        self.shed = 0
        self.refused = 0
        """How many messages came as questions and could not be read."""
        self.draining = False
        self._max_queue = max_queue
        self._workers = workers
        self._queue: asyncio.Queue[_Work] = asyncio.Queue()
        self._queued = 0
        self._subscriptions: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._probe_subject = f"{ROOT}.probe.{secrets.token_hex(8)}"
        self.probed_at = 0.0
        """When a message last went to the bus and back, by the monotonic clock."""

    async def __aenter__(self) -> Self:
        bus = self.connection
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._workers)]
        for number, scope in enumerate(self.scopes):
            if number % 100 == 0:
                await asyncio.sleep(0)  # many scopes take long; the server's pings must be answered meanwhile
            for mode in DECIDING:
                queue = QUEUE if mode is Mode.ANY else ""
                self._subscriptions.append(await bus.listen(interest(mode, scope), self._on_questions, queue))
        self._subscriptions.append(await bus.listen(WHO, lambda *_: self._announce()))
        self._subscriptions.append(await bus.listen(self._probe_subject, lambda *_: self._on_probe()))
        await bus.flush()
        self._tasks.append(asyncio.create_task(self._repeat()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drain()

    async def drain(self) -> None:
        """Take no more questions, answer those taken, and end."""
        self.draining = True
        try:
            await self.connection.cancel(self._subscriptions)
            await self._queue.join()
            await self.connection.flush()
        except NotConnected:
            _log.warning("the bus went away while draining: %d questions were not answered", self._queued)
        finally:
            for task in self._tasks:
                task.cancel()

    @property
    def queued(self) -> int:
        """How many questions are taken and not yet answered."""
        return self._queued

    def _on_questions(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not reply:
            self.refused += 1
            return
        try:
            requests, budget = _read(payload)
        except BadMessage as error:
            self.refused += 1
            self._reply(reply, Answers(problem=str(error)))
            return
        count = len(requests)
        if self._queued + count > self._max_queue:
            self.shed += count
            self._reply(reply, Answers([None] * count))
            return
        self._queued += count
        self._queue.put_nowait(_Work(requests, reply, monotonic(), budget))

    async def _work(self) -> None:
        now = monotonic
        while True:
            work = await self._queue.get()
            try:
                if not work.budget or now() - work.arrived < work.budget:
                    self._reply(work.reply, Answers(await self._decide(work.requests)))
                    self.answered += len(work.requests)
            finally:
                self._queued -= len(work.requests)
                self._queue.task_done()

    async def _decide(self, requests: list[Request | InvalidRequest]) -> list[Decision | None]:
        """Decide what can be decided; whatever goes wrong inside the decider is a denial."""
        readable = [r for r in requests if isinstance(r, Request)]
        try:
            decisions = iter(await self.decider.decide_many(readable))
        except Exception:
            _log.exception("the decider failed; %d questions are denied", len(readable))
            failure = Decision(
                False, Reason.POLICY_ERROR, detail="the PDP failed on this request; see its log"
            )
            decisions = iter([failure] * len(readable))
        if len(readable) == len(requests):
            return list(decisions)
        return [
            next(decisions)
            if isinstance(r, Request)
            else Decision(False, Reason.INVALID_REQUEST, detail=str(r))
            for r in requests
        ]

    def _reply(self, reply: str, answers: Answers) -> None:
        try:
            self.connection.send(reply, pack(answers))
        except NotConnected:
            _log.debug("the bus is away: an answer is lost, and the PEP will ask again")
        except BadMessage as error:
            self._reply(reply, Answers(problem=f"the answers are too large to send: {error}"))

    async def _repeat(self) -> None:
        """Announce what is served, and see that the bus still carries messages, again and again."""
        while True:
            self._announce()
            try:
                self.connection.send(self._probe_subject, b"")
            except NotConnected:
                _log.debug("the bus is away")
            await asyncio.sleep(ANNOUNCE_SECONDS)

    def _announce(self) -> None:
        scopes = [str(s) for s in self.scopes] if len(self.scopes) <= MAX_ANNOUNCED else []
        try:
            self.connection.send(ANNOUNCE, pack(Announcement(scopes, ANNOUNCE_TTL)))
        except NotConnected:
            _log.debug("the bus is away")

    def _on_probe(self) -> None:
        self.probed_at = monotonic()


def _read(payload: bytes) -> tuple[list[Request | InvalidRequest], float]:
    """The requests in a message; where some cannot be read, those alone are marked invalid."""
    try:
        questions = unpack_questions(payload)
        return list(questions.requests), questions.budget
    except BadMessage:
        raw = unpack_raw_questions(payload)
        return [_read_one(r) for r in raw.requests], raw.budget


def _read_one(raw: msgspec.Raw) -> Request | InvalidRequest:
    try:
        return _decode_request(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return InvalidRequest("request", f"cannot be read: {error}")
