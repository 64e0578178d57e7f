"""Asks the PDPs over the bus: coalesces concurrent questions, routes them by announced scope, fails closed."""

from __future__ import annotations

import asyncio
from time import monotonic

import msgspec

from authz import Decision, InvalidRequest, Reason, Request
from bus.connection import Connection, Subscription
from bus.messages import unpack_announcement
from bus.scopes import Scope, ScopeTable, own_scope
from bus.subjects import ANNOUNCE, WHO
from pep.batch import MAX_COUNT, Batch, Route
from pep.circuit import Circuit
from pep.strategy import HedgeDelay, Strategy

MAX_REQUEST_BYTES = 64 * 1024
MAX_OPEN = 65_536
RECONNECT_GRACE = 0.5
"""Seconds for which a lost connection is expected to come back; later questions fail at once."""
ROUTES_KEPT = 65_536
MAX_TTL = 60.0
"""Longest lifetime, in seconds, that an announcement may claim."""

_encode = msgspec.msgpack.Encoder().encode


class Asker:
    """One per process and domain. `decide` returns a future, so that asking costs no task of its own."""

    def __init__(self, connection: Connection, *, domain: str, strategy: Strategy, seconds: float) -> None:
        self.connection = connection
        self.domain = domain
        self.loop = asyncio.get_running_loop()
        self.hedge = HedgeDelay()
        self.circuit = Circuit()
        self.scopes = ScopeTable()
        self.asked_again = 0
        """How many questions were sent a second time or more often, hedges included."""
        self.invalid_answers = 0
        """How many messages arrived as answers and were none."""
        self.open = 0
        """How many questions wait for an answer."""
        self._strategy = strategy
        self.seconds = seconds
        self._routes: dict[str, Route] = {}
        self._own_routes: dict[tuple[str, str, str], Route] = {}
        self._scope_routes: dict[Scope, Route] = {}
        self._routes_version = 0
        self._filling: list[Batch] = []
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Listen to announcements, and ask the replicas for theirs."""
        self._subscription = await self.connection.listen(ANNOUNCE, self._on_announcement)
        self.connection.send(WHO, b"")

    async def stop(self) -> None:
        if self._subscription is not None:
            await self._subscription.cancel()

    def decide(
        self, request: Request, seconds: float | None = None, strategy: Strategy | None = None
    ) -> asyncio.Future[Decision]:
        """Ask. The answer is a Decision in every case: a denial with its reason if the fabric fails."""
        if not request.is_plain:
            check_encodable(request)
        answer: asyncio.Future[Decision] = self.loop.create_future()
        if not self.connection.ready or self.circuit.failing or self.open >= MAX_OPEN:
            refusal = self._refusal()
            if refusal is not None:
                answer.set_result(self.failure(refusal, request, 0.0))
                return answer
        route = self._routes.get(request.object.id) or self.route(request)
        batch = route.filling
        if batch is None or strategy is not None or seconds is not None:
            batch = self._batch(route, strategy or self._strategy, seconds or self.seconds)
        batch.requests.append(request)
        batch.answers.append(answer)
        if len(batch.answers) == MAX_COUNT:
            self._filling.remove(batch)
            batch.send()
        return answer

    def route(self, request: Request) -> Route:
        """Where the request goes: to the narrowest announced scope that holds it, or else on its own subject."""
        if (
            self._routes_version != self.scopes.version
            or len(self._routes) + len(self._own_routes) > ROUTES_KEPT
        ):
            self._forget_routes()
        own = (request.subject.id, request.object.id, request.action.id)
        return self._own_routes.get(own) or self._find_route(request, own)

    def withdraw(self, scope: Scope) -> None:
        """Nobody listens on an announced scope: forget it until it is announced again."""
        self.scopes.withdraw(scope)
        self._forget_routes()

    def failure(self, reason: Reason, request: Request, seconds: float, problem: str = "") -> Decision:
        """The denial that the fabric gives by itself, in words."""
        thing = request.object.id
        words = {
            Reason.NO_PDP: f"no PDP serves `{thing}`",
            Reason.TIMEOUT: f"no PDP answered for `{thing}` within {seconds:g} s",
            Reason.BUSY: f"every PDP that serves `{thing}` was too busy for {seconds:g} s",
            Reason.NOT_CONNECTED: f"not connected to `{self.connection.url}`",
        }
        return Decision(False, reason, detail=problem or words[reason])

    def _refusal(self) -> Reason | None:
        """Why not even to ask, if there is a reason."""
        if self.connection.ready:
            if not self.circuit.failing or self.circuit.admits(monotonic()):
                return None if self.open < MAX_OPEN else Reason.BUSY
            return Reason.NO_PDP
        if monotonic() - self.connection.lost_at > RECONNECT_GRACE:
            return Reason.NOT_CONNECTED
        return None

    def _find_route(self, request: Request, own: tuple[str, str, str]) -> Route:
        announced = self.scopes.narrowest(self.domain, request)
        scope = announced or own_scope(self.domain, request)
        # All objects of a scope share its route, or their questions would not travel together.
        route = self._scope_routes.get(scope)
        if route is None:
            route = self._scope_routes[scope] = Route(scope, announced=announced is not None)
        if (
            announced and not self.scopes.has_tuples
        ):  # with tuples, other subjects may be better asked elsewhere
            self._routes[request.object.id] = route
        return route

    def _forget_routes(self) -> None:
        self._routes.clear()
        self._own_routes.clear()
        self._scope_routes.clear()
        self._routes_version = self.scopes.version

    def _batch(self, route: Route, strategy: Strategy, seconds: float) -> Batch:
        """A new batch, sent at the end of this turn of the event loop or when it is full."""
        batch = Batch(self, route, strategy, seconds)
        if strategy is self._strategy and seconds == self.seconds:
            route.filling = batch
        if not self._filling:
            self.loop.call_soon(self._flush)
        self._filling.append(batch)
        return batch

    def _flush(self) -> None:
        batches, self._filling = self._filling, []
        for batch in batches:
            batch.send()

    def _on_announcement(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        announcement = unpack_announcement(payload)
        now = monotonic()
        ttl = min(announcement.ttl, MAX_TTL)
        self.circuit.heard(now, ttl)
        self.scopes.announce(map(Scope.parse, announcement.scopes), now, ttl)
        self.scopes.expire(now)
        if self._routes_version != self.scopes.version:
            self._forget_routes()


def check_encodable(request: Request) -> None:
    """Raise InvalidRequest, naming the field, for what cannot be asked."""
    request.validate()
    try:
        size = len(_encode(request))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest("attributes", f"must be JSON values: {error}") from None
    if size > MAX_REQUEST_BYTES:
        raise InvalidRequest(
            "attributes", f"make a request of {size} bytes; at most {MAX_REQUEST_BYTES} are allowed"
        )
