"""A PDP replica on the bus: hears the questions it can answer, decides them, and says when it is too busy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time
from typing import Protocol, Self, TypeAlias

import msgspec

from authz import AuthFabricError, Decision, InvalidRequest, Reason, Request
from bus.errors import BadMessage, NotConnected
from bus.nats import Connection, Subscription
from bus.runtime import TRACES, Latencies, Work, begin_work
from bus.wire import (
    ANNOUNCE,
    DECIDING,
    QUEUE,
    WHO,
    Announcement,
    Answers,
    Mode,
    Scope,
    interest,
    is_inbox,
    is_one,
    pack,
    unpack_announcement,
    widest,
)
from pdp.replica.announcement import Announcer, Crowd
from pdp.replica.answer_authority import AnswerAuthority
from pdp.replica.question_reader import read_questions

PROBE_SECONDS = 1.0
DRAIN_SECONDS = 8.0
"""Maximum seconds a drain waits for the decider and the bus."""

_FAILED = Decision(False, Reason.POLICY_ERROR, detail="the PDP failed on this request; see its log")

Observe: TypeAlias = Callable[[Sequence[Request], Sequence[Decision]], None]

_log = logging.getLogger("authfabric.pdp")


class CannotDecide(AuthFabricError):
    """Not now, and not here: others should be asked. It says nothing about the request."""

    def __init__(self, problem: str, reason: Reason = Reason.BUSY) -> None:
        super().__init__(problem)
        self.reason = reason


class Decider(Protocol):
    """What decides: an engine over policies, or anything that wraps one."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]: ...


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """How questions came, which is how their answers go back."""

    reply: str
    asker: bytes
    """The asker's agreement key; nothing if the answers need not be authenticated."""
    subject: str
    payload: bytes


class _Work(msgspec.Struct, frozen=True, gc=False):
    requests: Sequence[Request | InvalidRequest]
    asked: _Asked
    arrived: float
    budget: float
    trace: str
    """The asker's span; empty if nobody follows these questions."""


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
        authority: AnswerAuthority | None = None,
        observe: Observe | None = None,
        able: Callable[[], bool] | None = None,
    ) -> None:
        """`max_queue` bounds the questions taken and not yet answered; `workers` the messages decided at once.

        With a authority, askers that want to can tell that answers are from here. `observe` is told what was decided.
        While it is not `able` to decide, it announces nothing and is not ready.
        """
        self.connection = connection
        self.decider = decider
        self.authority = authority
        self.scopes = widest(scopes)
        self.answered = 0
        self.outcomes: Counter[tuple[bool, Reason]] = Counter()  # by whether they allow, and by reason
        self.latencies = Latencies()  # from when questions arrive until they are answered
        self.shed = 0
        self.refused = 0
        """How many messages came as questions and could not be read."""
        self.expired = 0
        """How many questions were not decided, since their asker had stopped waiting."""
        self.draining = False
        self._observe = observe
        self._able = able
        self._max_queue = max_queue
        self._workers = workers
        self._queue: asyncio.Queue[_Work] = asyncio.Queue()
        self._queued = 0
        self._subscriptions: list[Subscription] = []
        self._works: list[Work] = []
        self._source = secrets.token_bytes(8)
        self._announcer = Announcer(self.scopes, authority, self._source)
        self._announced = frozenset(map(str, self.scopes))
        self._crowd = Crowd()
        self._due = 0.0
        """When to announce something next, by the monotonic clock; 0 for everything at once."""
        self._introduction: bytes | None = None
        """By what right it answers, as last announced; None if it has announced nothing, or withdrawn it."""
        self._probe = ""
        self.probed_at = 0.0
        """When a message last went to the bus and back, by the monotonic clock."""

    async def __aenter__(self) -> Self:
        subjects = [(interest(mode, scope), mode) for scope in self.scopes for mode in DECIDING]
        self._works = [begin_work(self._work) for _ in range(self._workers)]
        try:
            await self._listen(subjects)
        except BaseException:
            await self.drain()
            raise
        self.probed_at = monotonic()
        self._works.append(begin_work(self._repeat))
        self.connection.on_ready.append(self._announce)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.drain()

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Take no more questions, answer those taken, and end; give up on what takes longer."""
        self._withdraw()
        self.draining = True
        self.connection.forget(self._probe)
        if self._announce in self.connection.on_ready:
            self.connection.on_ready.remove(self._announce)
        try:
            async with asyncio.timeout(seconds):
                with contextlib.suppress(NotConnected):
                    await self.connection.cancel(self._subscriptions)
                await self._queue.join()
                await self.connection.flush()
        except (NotConnected, TimeoutError) as error:
            _log.warning("drained in part, with %d questions left: %s", self._queued, error or "time is over")
        finally:
            await asyncio.gather(*(work.end() for work in self._works))

    @property
    def able(self) -> bool:
        """Whether it has something to decide by."""
        return self._able is None or self._able()

    @property
    def queued(self) -> int:
        """How many questions are taken and not yet answered."""
        return self._queued

    async def _listen(self, subjects: list[tuple[str, Mode]]) -> None:
        listen = self.connection.listen
        for number, (subject, mode) in enumerate(subjects):
            if number % 200 == 0:  # with many scopes, let the connection answer the server's pings meanwhile
                await asyncio.sleep(0)
            queue = QUEUE if mode is Mode.ANY else ""
            self._subscriptions.append(await listen(subject, self._on_questions, queue))
        self._subscriptions.append(await listen(WHO, self._on_who))
        self._subscriptions.append(await listen(ANNOUNCE, self._on_announcement))
        self._probe = self.connection.expect(lambda *_: self._on_probe())
        self._announce()
        await self.connection.flush()

    def _on_questions(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not is_inbox(reply):
            self.refused += 1
            return
        try:
            requests, budget, asker, trace = read_questions(payload)
        except BadMessage as error:
            self.refused += 1
            self._reply(_Asked(reply, b"", subject, payload), Answers(problem=str(error)))
            return
        if self.authority is None:
            asker = b""
        elif asker and not self.authority.accepts(asker):
            self.refused += 1
            return
        asked = _Asked(reply, asker, subject, payload)
        count = len(requests)
        if not count:  # else any number of such messages would find a place in the queue
            self._reply(asked, Answers())
            return
        if self._queued and self._queued + count > self._max_queue:
            self.shed += count
            self._reply(asked, Answers.of([None] * count))
            return
        self._queued += count
        self._queue.put_nowait(_Work(requests, asked, monotonic(), budget, trace))

    async def _work(self) -> None:
        now = monotonic
        while True:
            work = await self._queue.get()
            count = len(work.requests)
            try:
                if not work.budget or now() - work.arrived < work.budget:
                    decide = (
                        self._decide_traced(work) if work.trace and TRACES.on else self._decide(work.requests)
                    )
                    self._reply(work.asked, Answers.of(await decide))
                    self.answered += count
                    self.latencies.add(now() - work.arrived, count)
                else:
                    self.expired += count
            except Exception:  # one message ends no worker, and makes none wait before the next
                _log.exception("%d questions are left to others", count)
                self.shed += count
            finally:
                self._queued -= count
                self._queue.task_done()

    async def _decide_traced(self, work: _Work) -> Sequence[Decision | None]:
        with TRACES.continued(
            "authfabric.decide", work.trace, **{"authfabric.questions": len(work.requests)}
        ):
            return await self._decide(work.requests)

    async def _decide(self, requests: Sequence[Request | InvalidRequest]) -> Sequence[Decision | None]:
        """Decide what can be decided. A request on which the decider fails is denied, and that one only."""
        readable = [each for each in requests if isinstance(each, Request)]
        try:
            decisions = await self._ask_decider(readable)
        except CannotDecide as error:
            _log.debug("%s; %d questions are left to others", error, len(requests))
            self.shed += len(requests)
            left = None if error.reason is Reason.BUSY else Decision(False, error.reason, detail=str(error))
            return [left] * len(requests)
        except Exception:
            decisions = await asyncio.gather(*map(self._decide_alone, readable))
        self._count(decisions)
        self._show(readable, decisions)
        if len(readable) == len(requests):
            return decisions
        rest = iter(decisions)
        return [
            next(rest)
            if isinstance(each, Request)
            else Decision(False, Reason.INVALID_REQUEST, detail=str(each))
            for each in requests
        ]

    def _show(self, requests: Sequence[Request], decisions: Sequence[Decision]) -> None:
        """Let the observer see what was decided. What it makes of that is no reason not to answer."""
        if self._observe is not None:
            try:
                self._observe(requests, decisions)
            except Exception:
                _log.exception("what observes decisions failed on %d", len(decisions))

    def _count(self, decisions: Sequence[Decision]) -> None:
        if is_one(decisions):
            self.outcomes[decisions[0].allowed, decisions[0].reason] += len(decisions)
        else:
            self.outcomes.update([(each.allowed, each.reason) for each in decisions])

    async def _decide_alone(self, request: Request) -> Decision:
        try:
            (decision,) = await self._ask_decider([request])
        except Exception:
            _log.exception("the decider failed on `%r`, which is denied", str(request))
            return _FAILED
        return decision

    async def _ask_decider(self, requests: Sequence[Request]) -> list[Decision]:
        decisions = await self.decider.decide_many(requests)
        if len(decisions) != len(requests):
            raise ValueError(f"{len(decisions)} decisions for {len(requests)} requests")
        return decisions

    def _reply(self, asked: _Asked, answers: Answers) -> None:
        try:
            payload = pack(answers)
            if asked.asker and self.authority is not None:
                payload = self.authority.authenticate(asked.asker, asked.subject, asked.payload, payload)
            self.connection.send(asked.reply, payload)
        except NotConnected:
            _log.debug("the bus is away: an answer is lost, and the PEP will ask again")
        except BadMessage as error:
            _log.warning("an answer cannot be sent: %s", error)
            self._reply(asked, _instead(answers))

    async def _repeat(self) -> None:
        """Announce what is served, and see that the bus still carries messages, again and again."""
        while True:
            self._announcer.tell_again()
            self._announce_in_turn(monotonic())
            with contextlib.suppress(NotConnected):
                self.connection.send(self._probe, b"")
            await asyncio.sleep(PROBE_SECONDS)

    def _announce_in_turn(self, now: float) -> None:
        """Announce what is due, and everything, or that it is withdrawn, if that has changed."""
        if not self.able:
            self._withdraw()
            return
        introduction = b"" if self.authority is None else self.authority.introduction
        if introduction != self._introduction or not self._due:
            self._announce()
        elif now >= self._due:
            if self._announcer.interval == self._crowd.interval(now):
                self._say(ANNOUNCE, self._announcer.next)
                self._due = now + self._announcer.interval
            else:  # what was announced before counts for another time
                self._announce()

    def _announce(self) -> None:
        now = monotonic()
        self._announcer.interval = self._crowd.interval(now)
        self._say(ANNOUNCE, self._announcer.all)
        self._due = now + self._announcer.interval

    def _withdraw(self) -> None:
        """Say at once that nothing is served here any more, if anything was said."""
        if self._introduction is None or self.draining:
            return
        self._introduction = None
        with contextlib.suppress(NotConnected):
            for page in self._announcer.withdrawal(time()):
                self.connection.send(ANNOUNCE, pack(page))

    def _say(self, to: str, pages: Callable[[float], list[Announcement]]) -> None:
        if self.draining or not self.able:
            return
        self._introduction = b"" if self.authority is None else self.authority.introduction
        with contextlib.suppress(NotConnected):
            for page in pages(time()):
                self.connection.send(to, pack(page))

    def _on_who(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        """Tell whoever asks, and nobody else: many PEPs may start at once."""
        if is_inbox(reply):
            self._say(reply, self._announcer.told)

    def _on_announcement(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        """Count who is there. If another withdraws what is served here, too, say so again, unless a third does."""
        heard = unpack_announcement(payload)
        if heard.source == self._source:
            return
        now = monotonic()
        self._crowd.hear(heard.source, heard.ttl, now)
        if self._announced.isdisjoint(heard.scopes):
            return
        if heard.ttl <= 0:
            self._due = 0.0
        elif not self._due:
            self._due = now + self._announcer.interval

    def _on_probe(self) -> None:
        self.probed_at = monotonic()


def _instead(answers: Answers) -> Answers:
    """What to say when answers cannot be sent: alone each of several may fit, so they are to be asked for alone."""
    if len(answers.decisions) == 1:
        return Answers([Decision(False, Reason.POLICY_ERROR, detail="the PDP's answer is too large to send")])
    return Answers(problem="the answers are too large to send together")
