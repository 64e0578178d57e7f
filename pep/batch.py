"""Questions that travel together: sent, hedged, retried and given up as one, answered one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from authz import Decision, Reason, Request
from bus import subjects
from bus.envelope import pack
from bus.errors import BadMessage, NotConnected
from bus.messages import Questions, unpack_answers
from bus.scopes import Scope
from bus.subjects import DECIDING, Mode
from pep.strategy import RETRY_SECONDS, Strategy

if TYPE_CHECKING:
    from pep.asker import Asker

MAX_COUNT = 128
"""Questions in one message. Several messages, rather than one, keep PEP and PDP busy at the same time."""

Answer = asyncio.Future[Decision]


class Route:
    """Where the questions of one scope go."""

    __slots__ = ("announced", "filling", "scope", "subjects")

    def __init__(self, scope: Scope, announced: bool) -> None:
        self.scope = scope
        self.announced = announced
        self.subjects = {mode: subjects.question(mode, scope) for mode in DECIDING}
        self.filling: Batch | None = None
        """The batch that the next question with the usual strategy and deadline joins."""


class Batch:
    """Questions on one route, from the first attempt until all are answered or the deadline has passed."""

    __slots__ = (
        "_asker",
        "_attempts",
        "_count",
        "_deadline",
        "_reason",
        "_replies",
        "_timer",
        "_wait",
        "answers",
        "persistent",
        "requests",
        "route",
        "seconds",
        "strategy",
    )

    def __init__(self, asker: Asker, route: Route, strategy: Strategy, seconds: float) -> None:
        self._asker = asker
        self.route = route
        self.strategy = strategy
        self.seconds = seconds
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.persistent = route.announced
        """Whether to keep asking although nobody listens: somebody did a moment ago."""
        self._attempts = 0
        self._count = 0
        self._deadline = 0.0
        self._reason = Reason.TIMEOUT
        self._replies: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._wait = RETRY_SECONDS

    def send(self) -> None:
        """Ask for the first time. Nothing joins the batch from now on."""
        if self.route.filling is self:
            self.route.filling = None
        self._count = len(self.answers)
        self._asker.open += self._count
        self._deadline = monotonic() + self.seconds
        self._attempt(self.strategy.first)

    def _attempt(self, mode: Mode) -> None:
        now = monotonic()
        left = self._deadline - now
        if left <= 0:
            self._give_up()
            return
        self._attempts += 1
        try:
            self._publish(mode, now, left)
            wait = self._next_wait()
        except NotConnected:
            self._reason = Reason.NOT_CONNECTED
            wait = RETRY_SECONDS / 2
        except BadMessage:
            self._split()
            return
        self._timer = self._asker.loop.call_later(min(wait, left), self._again)

    def _publish(self, mode: Mode, now: float, left: float) -> None:
        connection = self._asker.connection
        payload = pack(Questions(self.requests, left))
        asked = self.answers

        def take(payload: bytes, nobody: bool) -> None:
            if nobody:
                self._nobody_listens()
            else:
                self._take(asked, payload, now)

        reply = connection.expect(take)
        self._replies.append(reply)
        connection.send(self.route.subjects[mode], payload, reply)

    def _next_wait(self) -> float:
        if self._attempts == 1 and self.strategy is Strategy.HEDGE:
            return self._asker.hedge.seconds
        wait, self._wait = self._wait, self._wait * 2
        return wait

    def _again(self) -> None:
        """Ask once more for what is still open."""
        self._keep_open()
        if self.answers:
            self._asker.asked_again += len(self.answers)
            self._attempt(self.strategy.again)
        else:
            self._finish()

    def _keep_open(self) -> None:
        pairs = [(r, a) for r, a in zip(self.requests, self.answers, strict=True) if not a.done()]
        self.requests = [request for request, _ in pairs]
        self.answers = [answer for _, answer in pairs]

    def _take(self, asked: list[Answer], payload: bytes, sent_at: float) -> None:
        """Give each waiting caller its answer. What is no answer to these questions is counted and ignored."""
        asker = self._asker
        try:
            answers = unpack_answers(payload)
        except BadMessage:
            asker.invalid_answers += 1
            return
        if answers.problem:
            self._fail(Reason.INVALID_REQUEST, answers.problem)
            return
        if len(answers.decisions) != len(asked):
            asker.invalid_answers += 1
            return
        asker.hedge.learn(monotonic() - sent_at)
        asker.circuit.answered()
        busy = False
        for answer, decision in zip(asked, answers.decisions, strict=True):
            if decision is None:
                busy = True
            elif not answer.done():
                answer.set_result(decision)
        if busy:
            self._refused()
        elif asked is self.answers or all(answer.done() for answer in self.answers):
            self._finish()

    def _refused(self) -> None:
        """A replica was too busy: ask the others at once, unless they were asked already."""
        self._reason = Reason.BUSY
        if self._attempts == 1 and self.strategy is not Strategy.FLOOD:
            self._cancel_timer()
            self._again()

    def _nobody_listens(self) -> None:
        """The server knows no subscriber for the subject at this moment."""
        self._keep_open()
        if not self.answers:
            self._finish()
            return
        self._reason = Reason.NO_PDP
        if self.route.announced:
            self._asker.withdraw(self.route.scope)
            self._divide(lambda request: self._asker.route(request))
        elif not self.persistent:
            self._give_up()

    def _split(self) -> None:
        """Together the questions are too large for one message: send them one by one."""
        self._keep_open()
        if len(self.answers) == 1:
            self._fail(Reason.INVALID_REQUEST, "the request is too large to send")
        else:
            self._divide(lambda _: self.route)

    def _divide(self, route: Callable[[Request], Route]) -> None:
        """Hand each open question to a batch of its own, within the same deadline."""
        left = self._deadline - monotonic()
        requests, answers = self.requests, self.answers
        self._finish()
        for request, answer in zip(requests, answers, strict=True):
            batch = Batch(self._asker, route(request), self.strategy, left)
            batch.requests.append(request)
            batch.answers.append(answer)
            batch.persistent = self.persistent
            batch.send()

    def _give_up(self) -> None:
        self._asker.circuit.failed(monotonic())
        self._fail(self._reason)

    def _fail(self, reason: Reason, problem: str = "") -> None:
        for request, answer in zip(self.requests, self.answers, strict=True):
            if not answer.done():
                answer.set_result(self._asker.failure(reason, request, self.seconds, problem))
        self._finish()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        """Drop the interest in answers: from now on they cost nothing."""
        self._cancel_timer()
        for reply in self._replies:
            self._asker.connection.forget(reply)
        self._replies.clear()
        self._asker.open -= self._count
        self._count = 0
