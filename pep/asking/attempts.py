"""Batches of questions: sent, hedged, retried and given up together, answered one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, TypeAlias

from authz import Decision, Reason, Request
from authz.authority import Decider
from bus.errors import BadMessage, NotConnected
from bus.runtime import TRACES
from bus.wire import Mode, Questions, Scope, own_scope, pack, subjects, unpack_answers
from pep.asking.route import Route
from pep.asking.strategy import ESCALATION, RETRY_SECONDS, Strategy, escalation

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from bus.runtime import OpenSpan
    from pep.asking.asker import Asker

MAX_COUNT = 128
"""Questions in one message. Several messages, rather than one, keep PEP and PDP busy at the same time."""

APART_SHARE = 0.25
"""The share of a question's time that is left, at the least, for asking on its own subject."""
_QUICK_ATTEMPTS = 2
"""Hedged attempts after each of which the usual time of an answer is waited; later waits double."""

_STALE = Reason.STALE  # members of an enum are slow to look up

Answer: TypeAlias = asyncio.Future[Decision]
Pair: TypeAlias = tuple[Request, Answer]
Terms: TypeAlias = tuple[Strategy, float]
"""How to ask, and within how many seconds."""


class Batch:
    """Questions on one route, from the first attempt until all are answered or the deadline has passed."""

    __slots__ = (
        "_asked_all",
        "_asker",
        "_attempts",
        "_count",
        "_deadline",
        "_over",
        "_problem",
        "_reason",
        "_replies",
        "_seconds",
        "_span",
        "_strategy",
        "_timer",
        "_wait",
        "answers",
        "callers",
        "requests",
        "route",
        "terms",
    )

    def __init__(self, asker: Asker, route: Route, terms: Terms | None, deadline: float = 0.0) -> None:
        """The deadline is a time of the monotonic clock; 0 lets the seconds of the terms begin when it is sent."""
        self._asker = asker
        self.route = route
        self.terms = terms
        self._strategy, self._seconds = terms or asker.usual
        self.requests: list[Request] = []
        self.answers: list[Answer] = []
        self.callers: list[SpanContext] = []
        """The spans of those who ask, where their traces are sampled."""
        self._span: OpenSpan | None = None
        self._asked_all = False
        self._attempts = 0
        self._count = 0
        self._deadline = deadline
        self._over = False
        self._problem = ""
        self._reason = Reason.TIMEOUT
        self._replies: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._wait = RETRY_SECONDS

    def add(self, request: Request, answer: Answer) -> bool:
        """One more question; says whether there is no room for another."""
        self.requests.append(request)
        self.answers.append(answer)
        if TRACES.on and TRACES.context():
            caller = TRACES.sampled()
            if caller is not None and caller not in self.callers[-1:]:
                self.callers.append(caller)
        return len(self.answers) == MAX_COUNT

    def send(self) -> None:
        """Ask for the first time. Nothing joins the batch from now on."""
        filling, asker = self.route.filling, self._asker
        if filling.get(self.terms) is self:
            del filling[self.terms]
        self._count = len(self.answers)
        asker.opened(self, self._count)
        self._deadline = self._deadline or monotonic() + self._seconds
        if self.callers:
            self._span = TRACES.begin_for(
                "authfabric.ask", self.callers, **{"authfabric.questions": self._count}
            )
        self._attempt(self._strategy.modes(0))

    def fail(self, reason: Reason, problem: str = "") -> None:
        """Deny whatever is still open."""
        self._asker.settled(sum(not each.done() for each in self.answers), self._deadline - self._seconds)
        for request, answer in zip(self.requests, self.answers, strict=True):
            if not answer.done():
                answer.set_result(self._asker.failure(reason, request, self._seconds, problem))
        self._finish()

    def resume(self) -> None:
        """The connection is back: ask for what is still open. Earlier answers may have been lost with it."""
        self._cancel_timer()
        self._keep_open()
        if self.answers:
            self._attempt(self._strategy.modes(self._attempts))
        else:
            self._finish()

    def somebody_came(self) -> None:
        """A replica has announced what was not announced before: where nobody was found, ask again at once."""
        if self._reason is Reason.NO_PDP and not self._over:
            self.resume()

    def _attempt(self, modes: Sequence[Mode]) -> None:
        now = monotonic()
        left = self._deadline - now
        if left <= 0:
            self._give_up()
            return
        if not self._asker.connection.ready:  # `resume` asks when it is back
            self._reason = Reason.NOT_CONNECTED
            self._timer = self._asker.loop.call_later(left, self._give_up)
            return
        until_apart = self._until_apart(left)
        apart = until_apart <= 0
        try:
            if apart:
                self._publish_apart(now, left)
            else:
                for mode in modes:
                    self._publish(mode, now, left)
            self._attempts += 1
            wait = self._next_wait()
        except NotConnected:  # it closed a moment ago
            self._reason = Reason.NOT_CONNECTED
            wait = RETRY_SECONDS / 2
        except BadMessage as error:
            self._split(str(error))
            return
        self._timer = self._asker.loop.call_later(min(wait, left if apart else until_apart), self._again)

    def _until_apart(self, left: float) -> float:
        """Seconds until whoever announced the scope has had its chances; then each question goes on its own subject.

        They are over early if nobody answers, or all are busy or unable.
        """
        if not self.route.shared:
            return left
        return 0.0 if self._attempts >= len(ESCALATION) else left - self._seconds * APART_SHARE

    def _publish_apart(self, now: float, left: float) -> None:
        """Ask for each question on its own subject: every replica hears it that serves it, announced or not."""
        groups: dict[Scope, tuple[list[Request], list[Answer]]] = {}
        for request, answer in zip(self.requests, self.answers, strict=True):
            requests, answers = groups.setdefault(own_scope(self._asker.domain, request), ([], []))
            requests.append(request)
            answers.append(answer)
        for scope, (requests, answers) in groups.items():
            self._ask(subjects.question(Mode.ALL, scope), requests, answers, now, left)
        self._asked_all = True

    def _publish(self, mode: Mode, now: float, left: float) -> None:
        subject = self.route.subjects[mode]
        self._ask(subject, self.requests, self.answers, now, left, self._nobody_listens)
        self._asked_all = mode is Mode.ALL

    def _ask(
        self,
        subject: str,
        requests: list[Request],
        asked: list[Answer],
        now: float,
        left: float,
        nobody_listens: Callable[[], None] = lambda: None,
    ) -> None:
        asker = self._asker
        number, authenticity, trace = asker.next_number(), asker.authenticity, ""
        if self._span is not None:
            trace = self._span.parent
            self._span.event("sent", subject=subject)
        if authenticity is None:
            question = pack(Questions(requests, left, trace=trace))
        else:
            question = pack(Questions(requests, left, authenticity.asker, number, trace))

        def take(payload: bytes, nobody: bool) -> None:
            if nobody:
                nobody_listens()
            elif authenticity is None:
                self._take(asked, payload, now)
            elif (opened := authenticity.open(subject, question, payload)) is not None:
                self._take(asked, opened[0], now, opened[1], requests)

        reply = asker.connection.expect(take)
        self._replies.append(reply)
        asker.connection.send(subject, question, reply)
        if self._attempts:
            asker.count_asked_again(len(asked))
        if self._reason is Reason.NOT_CONNECTED:
            self._reason = Reason.TIMEOUT

    def _next_wait(self) -> float:
        usual = self._asker.hedge.seconds
        if self._attempts <= _QUICK_ATTEMPTS and self._strategy is Strategy.HEDGE:
            return usual
        wait, self._wait = max(self._wait, usual), self._wait * 2
        return wait

    def _again(self) -> None:
        """Ask once more for what is still open."""
        self._asker.relocation.missed()
        self.resume()

    def _keep_open(self) -> None:
        pairs = [(r, a) for r, a in zip(self.requests, self.answers, strict=True) if not a.done()]
        self.requests = [request for request, _ in pairs]
        self.answers = [answer for _, answer in pairs]

    def _take(
        self,
        asked: list[Answer],
        payload: bytes,
        sent_at: float,
        decider: Decider | None = None,
        requests: Sequence[Request] = (),
    ) -> None:
        """Give each waiting caller its answer. What is no answer to these questions is counted and ignored."""
        asker = self._asker
        try:
            answers = unpack_answers(payload)
            decisions = answers.in_order()
        except BadMessage:
            asker.count_invalid_answer()
            return
        if answers.problem:
            self._misunderstood(answers.problem)
        elif len(decisions) != len(asked):
            asker.count_invalid_answer()
        else:
            now = monotonic()
            asker.hedge.learn(now - sent_at)
            asker.circuit.answered(now)
            if decider is None or asker.authenticity is None or decider.may_decide_all(requests, time()):
                self._settle(asked, decisions, Reason.BUSY)
            else:
                permitted = asker.authenticity.permitted(decider, requests, decisions)
                self._settle(asked, permitted, Reason.NO_PDP)

    def _settle(self, asked: list[Answer], decisions: Sequence[Decision | None], otherwise: Reason) -> None:
        """Pass decisions on. Where there is none, others are asked, and what is never answered is denied so."""
        lacking, problem, settled = False, "", 0
        for answer, decision in zip(asked, decisions, strict=True):
            if decision is None:
                lacking = True
            elif decision.reason is _STALE:
                lacking, otherwise, problem = True, _STALE, decision.detail
            elif not answer.done():
                answer.set_result(decision)
                settled += 1
        self._asker.settled(settled, self._deadline - self._seconds)
        if lacking and otherwise is _STALE:  # at another server there may be one with a lease
            self._asker.relocation.missed()
        else:
            self._asker.relocation.found()
        if lacking:
            self._reason, self._problem = otherwise, problem
            self._ask_the_others()
        elif asked is self.answers or all(answer.done() for answer in self.answers):
            self._finish()

    def _ask_the_others(self, modes: Sequence[Mode] = ()) -> None:
        """One replica was of no help: ask more at once, unless all were asked already, or another batch does."""
        if self._asked_all or self._over:
            return
        self._cancel_timer()
        self._keep_open()
        if self.answers:
            self._attempt(modes or escalation(self._attempts))
        else:
            self._finish()

    def _misunderstood(self, problem: str) -> None:
        """A replica could not read the questions, or not send the answers: fewer may do, or another replica."""
        if self._over:
            return
        self._keep_open()
        if len(self.answers) > 1:
            self._split(problem)
        else:
            self._reason, self._problem = Reason.INVALID_REQUEST, problem
            self._ask_the_others()

    def _nobody_listens(self) -> None:
        """The server knows no subscriber for the subject at this moment."""
        if self._over:
            return
        self._keep_open()
        if not self.answers:
            self._finish()
            return
        self._reason = Reason.NO_PDP
        self._asker.relocation.missed()
        if self.route.announced:
            self._asker.withdraw(self.route.scope)
            self._hand_over(self._by_route(), self._doubted())
        elif self._asker.authenticity is not None:
            # Anyone may have said so. If it is true, nobody answers the others' question either.
            self._ask_the_others((Mode.ALL,))
        else:
            self._wait_at_most(max(self.route.expected_until, self._asker.due_until) - monotonic())

    def _wait_at_most(self, seconds: float) -> None:
        """Keep asking, ever more rarely, for so long, and give up if nobody listens then either."""
        if seconds <= 0:
            self._give_up()
        elif self._timer is not None and self._timer.when() > self._asker.loop.time() + seconds:
            self._timer.cancel()
            self._timer = self._asker.loop.call_later(seconds, self._again)

    def _doubted(self) -> list[str]:
        """Where a true answer may still come although it was said that nobody listens: anyone may have said so."""
        if self._asker.authenticity is None:
            return []
        doubted, self._replies = self._replies, []
        return doubted

    def _by_route(self) -> Iterable[tuple[Route, list[Pair]]]:
        """What is open, by where it is to be asked now."""
        groups: dict[Route, list[Pair]] = {}
        for request, answer in zip(self.requests, self.answers, strict=True):
            groups.setdefault(self._asker.route(request), []).append((request, answer))
        return groups.items()

    def _split(self, problem: str) -> None:
        """Together the questions, or the answers, are too large for one message: ask each half by itself."""
        self._keep_open()
        if len(self.answers) <= 1:
            self.fail(Reason.INVALID_REQUEST, problem)
            return
        pairs = list(zip(self.requests, self.answers, strict=True))
        middle = len(pairs) // 2
        self._hand_over([(self.route, pairs[:middle]), (self.route, pairs[middle:])])

    def _hand_over(self, groups: Iterable[tuple[Route, list[Pair]]], replies: Sequence[str] = ()) -> None:
        """Hand what is open to other batches, within the same deadline, and where answers to it may still come."""
        self._finish()
        for route, pairs in groups:
            batch = Batch(self._asker, route, self.terms, self._deadline)
            batch.requests = [request for request, _ in pairs]
            batch.answers = [answer for _, answer in pairs]
            batch._replies.extend(replies)
            batch.callers = self.callers
            batch.send()

    def _give_up(self) -> None:
        if self._reason is not Reason.NOT_CONNECTED:  # that says nothing about the replicas
            self._asker.given_up(monotonic() - self._deadline)
        self.fail(self._reason, self._problem)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        """Drop the interest in answers: from now on they cost nothing."""
        self._over = True
        self._cancel_timer()
        if self._span is not None:
            self._span.end()
            self._span = None
        asker = self._asker
        for reply in self._replies:
            asker.connection.forget(reply)
        self._replies.clear()
        asker.closed(self, self._count)
        self._count = 0
