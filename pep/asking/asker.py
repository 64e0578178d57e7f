"""Asks the PDPs over the bus: coalesces concurrent questions, routes them by announced scope, fails closed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from time import monotonic

from authz import Decision, InvalidRequest, PublicKey, Reason, Request
from authz.explanation import Explanation
from authz.scope import Scope as ListScope
from bus.errors import NotConnected
from bus.nats import Connection, Relocation, Subscription
from bus.runtime import Latencies
from bus.wire import (
    Announcement,
    Scope,
    ScopeQuery,
    ScopeTable,
    SearchPage,
    SearchQuery,
    check_domain,
    own_scope,
    parse_scopes,
    subjects,
    unpack_announcement,
)
from pep.asking.attempts import Batch, Terms
from pep.asking.circuit_breaker import Circuit
from pep.asking.encodable import check_encodable
from pep.asking.queries import ask_scope, ask_search, ask_why
from pep.asking.route import Route
from pep.asking.strategy import HedgeDelay, Strategy
from pep.trust import Authenticity

MAX_OPEN = 65_536
"""Questions that may wait for an answer, or for the connection, at the same time."""
RETURN_GRACE = 1.5
"""Seconds for which somebody who served a scope is expected to come back; later questions fail at once."""
RECONNECT_GRACE = 5.0
"""Seconds after a reconnect for which replicas are expected back: they may have lost the same server."""
STILL_SECONDS = 1.0
"""Seconds after its deadline from which a question that is given up shows that this process did not run."""
ROUTES_KEPT = 65_536
MAX_TTL = 150.0
"""Longest lifetime, in seconds, that an announcement may claim."""

PROBE_SECONDS = 0.25
"""Time between two questions who is there, while no replica is heard."""

_log = logging.getLogger("authfabric.pep")


class Asker:
    """One per process and domain. `decide` returns a future, so that asking costs no task of its own."""

    def __init__(
        self,
        connection: Connection,
        *,
        domain: str,
        strategy: Strategy | str,
        seconds: float,
        roots: Collection[PublicKey] = (),
    ) -> None:
        """With roots, only those whom one of them empowered are believed."""
        check_domain(domain)
        self.connection = connection
        self.domain = domain
        self.loop = asyncio.get_running_loop()
        self.hedge = HedgeDelay()
        self.circuit = Circuit()
        self.relocation = Relocation(connection)
        self.scopes = ScopeTable()
        self.asked_again = 0
        """How many questions were sent a second time or more often, hedges included."""
        self.authenticity = Authenticity(roots, self._ask_who) if roots else None
        """What tells the answers that count from others; None if every answer counts."""
        self.latencies = Latencies()
        """How long questions waited, until they were answered or given up."""
        self.sent = 0
        """How many messages with questions were sent."""
        self.invalid_answers = 0
        """How many messages arrived as answers and were none."""
        self.open = 0
        """How many questions wait for an answer."""
        self.batches: set[Batch] = set()
        """The batches in which they wait."""
        self.usual = asking_terms(strategy, seconds)
        """How it asks unless a call says otherwise."""
        self.salt: Callable[[Request], Request] | None = None
        """How questions are asked instead whose attributes nobody is to guess by the hashes that PDPs sign."""
        self.due_until = 0.0
        """Until when replicas are expected back that may have lost their connection with ours."""
        self._lost = ScopeTable()
        self._announced_at: dict[bytes, float] = {}
        """When the newest announcement of each announcer was signed, by its clock."""
        self._routes: dict[str, Route] = {}
        self._own_routes: dict[tuple[str, str, str], Route] = {}
        self._scope_routes: dict[Scope, Route] = {}
        self._routes_version = 0
        self._filling: list[Batch] = []
        self._new_answer = self.loop.create_future
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._stopped = False
        self._probing: asyncio.TimerHandle | None = None
        self._trouble = ""
        """What was last logged of what keeps questions from being answered."""

    async def start(self) -> None:
        """Listen to announcements, and ask the replicas for theirs."""
        self._subscription = await self.connection.listen(
            subjects.ANNOUNCE, lambda s, r, data, h: self._hear(data)
        )
        self._inbox = self.connection.expect(lambda data, nobody: None if nobody else self._hear(data))
        self.connection.on_ready.append(self._resume)
        self._ask_who()

    async def stop(self) -> None:
        """Answer what is still open: there is no connection any more."""
        self._stopped = True
        if self._probing is not None:
            self._probing.cancel()
        for batch in [*self._filling, *self.batches]:
            batch.fail(Reason.NOT_CONNECTED)
        self._filling.clear()
        self.connection.forget(self._inbox)
        self.connection.on_ready.remove(self._resume)
        if self._subscription is not None:
            with contextlib.suppress(NotConnected):
                await self._subscription.cancel()

    def terms(self, seconds: float | None, strategy: Strategy | str | None) -> Terms | None:
        """What one call asks for, if not the usual; refused with InvalidRequest if it makes no sense."""
        if seconds is None and strategy is None:
            return None
        usual_strategy, usual_seconds = self.usual
        terms = asking_terms(strategy or usual_strategy, usual_seconds if seconds is None else seconds)
        return None if terms == self.usual else terms

    def decide(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        """Ask. The answer is a Decision in every case: a denial with its reason if the fabric fails."""
        if not request.is_plain():
            check_encodable(request)
        return self.decide_valid(request, terms)

    def decide_valid(self, request: Request, terms: Terms | None = None) -> asyncio.Future[Decision]:
        """The same for a request that is known to be valid."""
        if self.salt is not None:
            request = self.salt(request)
        answer: asyncio.Future[Decision] = self._new_answer()
        if not self.connection.ready or self.circuit.failing or self.open >= MAX_OPEN or self._stopped:
            refusal = self._refusal()
            if refusal is not None:
                # In the next turn of the event loop: who asks in a loop must not keep it from connecting again.
                self.loop.call_soon(_settle, answer, self.failure(refusal, request, 0.0))
                return answer
        route = self._routes.get(request.object.id) or self.route(request)
        batch = route.filling.get(terms) or self._batch(route, terms)
        if batch.add(request, answer):
            self._filling.remove(batch)
            batch.send()
        return answer

    async def search(self, query: SearchQuery, seconds: float) -> SearchPage:
        """One page of a search. Raises SearchRefused, NoResponders or ReplyTimeout."""
        return await ask_search(self, query, seconds)

    async def scope(self, query: ScopeQuery, seconds: float) -> ListScope:
        """What may be listed, from a PDP that may decide there: see `ask_scope`."""
        return await ask_scope(self, query, seconds)

    async def explain(self, request: Request, seconds: float) -> Explanation:
        """Why it is decided as it is. Raises ExplanationRefused, NoResponders or ReplyTimeout."""
        check_encodable(request)
        return await ask_why(self, request, seconds)

    def route(self, request: Request) -> Route:
        """Where the request goes: to the narrowest announced scope that holds it, or else on its own subject."""
        kept = len(self._routes) + len(self._own_routes) + len(self._scope_routes)
        if self._routes_version != self.scopes.version or kept > ROUTES_KEPT:
            self._forget_routes()
        own = (request.subject.id, request.object.id, request.action.id)
        return self._own_routes.get(own) or self._find_route(request, own)

    def opened(self, batch: Batch, count: int) -> None:
        """A batch was sent, with this many questions."""
        self.batches.add(batch)
        self.open += count

    def closed(self, batch: Batch, count: int) -> None:
        """A batch is over; this many of its questions were open until now."""
        self.batches.discard(batch)
        self.open -= count

    def next_number(self) -> int:
        """The number of the next message with questions: no two are the same."""
        self.sent += 1
        return self.sent

    def count_asked_again(self, count: int) -> None:
        self.asked_again += count

    def count_invalid_answer(self) -> None:
        self.invalid_answers += 1

    def withdraw(self, scope: Scope) -> None:
        """Nobody listens on an announced scope: forget it until it is announced again."""
        self.scopes.withdraw(scope)
        self._lost.announce([scope], monotonic(), RETURN_GRACE)
        self._forget_routes()

    def failure(self, reason: Reason, request: Request, seconds: float, problem: str = "") -> Decision:
        """The denial that the fabric gives by itself, in words."""
        thing = request.object.id
        trusted = ""
        if self.authenticity is not None and self.authenticity.refused:
            trusted = f" that is trusted here (refused answers so far: {self.authenticity})"
        words = {
            Reason.NO_PDP: f"no PDP{trusted} serves `{thing}`",
            Reason.TIMEOUT: f"no PDP{trusted} answered for `{thing}` within {seconds:g} s",
            Reason.STALE: f"no PDP that serves `{thing}` has a lease on its policies",
            Reason.BUSY: f"every PDP that serves `{thing}` was too busy for {seconds:g} s",
            Reason.NOT_CONNECTED: f"not connected to `{self.connection.address}`",
        }
        if reason is Reason.NOT_CONNECTED and not self._stopped:
            self._tell(words[reason])
        return Decision(False, reason, detail=problem or words[reason] + self._unread() + self._clocks())

    def _clocks(self) -> str:
        """Whose clock is wrong, if somebody's is."""
        wrong = "" if self.authenticity is None else self.authenticity.clocks.problem
        return f"; {wrong}" if wrong else ""

    def _unread(self) -> str:
        """Why nobody new is believed, if that is so."""
        unread = [] if self.authenticity is None else self.authenticity.unread
        return f"; nobody new is believed, since what was revoked is not known: {'; '.join(unread)}" * bool(
            unread
        )

    def _refusal(self) -> Reason | None:
        """Why not even to ask, if there is a reason."""
        if self._stopped:
            return Reason.NOT_CONNECTED
        if not self.connection.ready:  # questions wait for it, each until its deadline
            return None if self.open < MAX_OPEN else Reason.NOT_CONNECTED
        if self.circuit.failing:
            self.relocation.missed()
            if self.circuit.is_open(monotonic()):
                self._probe()
                self._tell("no PDP is heard of")
                return Reason.NO_PDP
        return None if self.open < MAX_OPEN else Reason.BUSY

    def _find_route(self, request: Request, own: tuple[str, str, str]) -> Route:
        announced = self.scopes.narrowest(self.domain, request)
        scope = announced or own_scope(self.domain, request)
        # All objects of a scope share its route, or their questions would not travel together.
        route = self._scope_routes.get(scope)
        if route is None:
            route = Route(scope, announced is not None, self._expected_until(request))
            self._scope_routes[scope] = route
        if announced and not self.scopes.has_tuples:
            self._routes[request.object.id] = route
        else:  # other subjects may have to be asked elsewhere
            self._own_routes[own] = route
        return route

    def _expected_until(self, request: Request) -> float:
        """Until when somebody who serves the request should come back: somebody did a moment ago."""
        now = monotonic()
        self._lost.expire(now)
        return 0.0 if self._lost.narrowest(self.domain, request) is None else now + RETURN_GRACE

    def _forget_routes(self) -> None:
        self._routes.clear()
        self._own_routes.clear()
        self._scope_routes.clear()
        self._routes_version = self.scopes.version

    def _batch(self, route: Route, terms: Terms | None) -> Batch:
        """A new batch, sent at the end of this turn of the event loop or when it is full."""
        batch = route.filling[terms] = Batch(self, route, terms)
        if not self._filling:
            self.loop.call_soon(self._flush)
        self._filling.append(batch)
        return batch

    def _flush(self) -> None:
        batches, self._filling = self._filling, []
        for batch in batches:
            batch.send()

    def settled(self, count: int, since: float) -> None:
        """Count answers by the seconds since they were asked for; a negative time means that nobody was asked."""
        if count and since >= 0:
            self.latencies.add(monotonic() - since, count)

    def given_up(self, late: float) -> None:
        """A question was given up, so long after its deadline; replicas are asked whether they are there.

        If that is long, this process stood still, and replicas are not to blame: they may have answered all the while.
        """
        if late > STILL_SECONDS:
            self.circuit.reset(monotonic(), RECONNECT_GRACE)
            self._ask_who()
            return
        self.circuit.failed()
        self._probe()

    def _tell(self, trouble: str) -> None:
        """Log what keeps questions from being answered, and when PDPs are there again."""
        if trouble != self._trouble:
            self._trouble = trouble
            said = f"{trouble}: requests are denied" if trouble else "PDPs are heard of again"
            _log.warning("asking in `%s`: %s", self.domain, said)

    def _probe(self) -> None:
        """Ask who is there every so often while the last question has failed; users' questions are not used for it."""
        if self._probing is None and not self._stopped:
            self._probing = self.loop.call_later(PROBE_SECONDS, self._ask_again)

    def _ask_again(self) -> None:
        self._probing = None
        if self.circuit.failing:
            if self.circuit.is_open(monotonic()):
                self._ask_who()
            self._probe()

    def _resume(self) -> None:
        """The connection is back: ask who is there, and again whatever is open. What failed before says nothing now."""
        now = monotonic()
        self.due_until = now + RECONNECT_GRACE
        self.circuit.reset(now, RECONNECT_GRACE)
        self._ask_who()
        for batch in list(self.batches):
            batch.resume()

    def _ask_who(self) -> None:
        if not self._inbox:  # it has not started
            return
        with contextlib.suppress(NotConnected):
            self.connection.send(subjects.WHO, b"", self._inbox)

    def _announced(self, announcement: Announcement) -> tuple[bytes, list[Scope]] | None:
        """Who announces, if that is known, and the scopes that count; None if the announcement does not."""
        if self.authenticity is not None:
            return self.authenticity.announced(announcement)
        return b"", parse_scopes(announcement.scopes)

    def _hear(self, payload: bytes) -> None:
        """Take note of an announcement."""
        announcement = unpack_announcement(payload)
        announced = self._announced(announcement)
        if announced is None:
            return
        announcer, scopes = announced
        now = monotonic()
        if announcement.ttl <= 0:
            self._retract(announcer, scopes, announcement.at)
            return
        self._announced_at[announcer] = max(announcement.at, self._announced_at.get(announcer, 0.0))
        ttl = min(max(0.0, announcement.ttl), MAX_TTL)
        self.circuit.heard(now, ttl)
        self._tell("")
        self.scopes.announce(scopes, now, ttl, announcer)
        self.scopes.expire(now)
        if self._routes_version != self.scopes.version:
            self._forget_routes()
            for batch in list(self.batches):
                batch.somebody_came()

    def _retract(self, announcer: bytes, scopes: Collection[Scope], at: float) -> None:
        """A replica withdraws scopes. What was signed before its last announcement is of an earlier withdrawal."""
        if at < self._announced_at.get(announcer, 0.0):
            return
        self._lost.announce(self.scopes.retract(scopes, announcer), monotonic(), RETURN_GRACE)
        self._forget_routes()


def _settle(answer: asyncio.Future[Decision], decision: Decision) -> None:
    if not answer.done():
        answer.set_result(decision)


def asking_terms(strategy: Strategy | str, seconds: float) -> Terms:
    """How to ask, checked. Raises InvalidRequest."""
    try:
        strategy = Strategy(strategy)
    except ValueError:
        raise InvalidRequest("strategy", f"must be {', '.join(Strategy)}, not `{strategy}`") from None
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidRequest("deadline", f"must be more than 0 seconds, not {seconds}")
    return strategy, seconds
