"""Any ASGI application: one middleware that asks about every request before it arrives."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from authz import AuthFabricError, Decision, InvalidRequest, Reason
from pep.enforcer import Enforcer
from pep.integrations.core import (
    OWN_REFUSALS,
    PUBLIC,
    Core,
    Problem,
    Question,
    Refused,
    _Public,
    invalid,
    own_refusal,
)

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Routed: TypeAlias = Question | _Public | None

_UNROUTED = Decision(False, Reason.NO_POLICY, detail="no route says what this is")
_POLICY_VIOLATION = 1008


class UnknownScope(AuthFabricError):
    """A connection of a kind that nobody can be asked about."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"connections of the kind `{kind}` are not guarded, so they are not let through")
        self.kind = kind


class GuardMiddleware(Core):
    """`GuardMiddleware(app, route, pep)`: HTTP requests and WebSockets reach the application if they are allowed.

    `route(scope)` gives the question, or PUBLIC. Without either the request is denied. An obligation that needs the
    result of the work is a denial, since it streams by.
    """

    def __init__(
        self,
        app: App,
        route: Callable[[Scope], Routed | Awaitable[Routed]],
        pep: Enforcer | Callable[[], Enforcer],
    ) -> None:
        super().__init__()
        self._app = app
        self._route = route
        self._pep = pep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] not in ("http", "websocket"):
            raise UnknownScope(scope["type"])
        try:
            await self._ask(scope)
        except Refused as refused:
            await _refuse(scope, receive, send, refused.problem)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except OWN_REFUSALS as error:
            if begun:
                raise
            await _refuse(scope, receive, send, own_refusal(error).problem)

    async def _ask(self, scope: Scope) -> None:
        """Raises Refused."""
        try:
            routed = self._route(scope)
            question = await routed if inspect.isawaitable(routed) else routed
        except InvalidRequest as error:
            raise invalid(error) from None
        if question is PUBLIC:
            return
        if question is None:
            raise Refused(_UNROUTED)
        pep = self._pep if isinstance(self._pep, Enforcer) else self._pep()
        await self.permit(pep, question, result=False)


async def _refuse(scope: Scope, receive: Receive, send: Send, problem: Problem) -> None:
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
        if kind not in (scope.get("extensions") or {}):
            await receive()
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    headers.append((b"content-length", str(len(problem.body)).encode()))
    await send({"type": f"{kind}.start", "status": problem.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": problem.body})
