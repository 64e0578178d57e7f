"""FastAPI and Starlette: a decorator or a dependency for each route.

`guard = Guard(subject=...)`, then `@guard("read", "/documents/{id}")` below the route's own decorator. The enforcer is
the one given, or `app.state.pep`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from authz import Decision, InvalidRequest
from authz.extras import needing
from authz.request import Attributes
from pep.enforcer import Enforcer
from pep.integrations.core import (
    OWN_REFUSALS,
    Core,
    Name,
    NoEnforcer,
    Of,
    Problem,
    Question,
    Refused,
    invalid,
    own_refusal,
    shown,
    template,
)
from pep.obligations import Plan

with needing("fastapi"):
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket, WebSocketState

_REQUEST = "authfabric_request"
"""The parameter by which a guarded route receives its request, if it has none of its own."""


class Denied(HTTPException):
    """A refusal in a dependency. `Guard.install(app)` makes it problem+json."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(problem.status, detail, dict(problem.headers))
        self.problem = problem


class Guard(Core):
    """Guards routes of one application."""

    def __init__(
        self,
        subject: Callable[[HTTPConnection], Name | Awaitable[Name]],
        *,
        context: Callable[[HTTPConnection], Attributes] | None = None,
        pep: Enforcer | None = None,
    ) -> None:
        """`subject` says who asks: it must rest on what was authenticated. `context` adds facts."""
        super().__init__()
        self._subject = subject
        self._context = context
        self._pep = pep

    def install(self, app: Starlette) -> None:
        """Let what dependencies and routes refuse be problem+json, and what the fabric does not answer 503."""
        app.add_exception_handler(Denied, _respond_denied)
        for error in OWN_REFUSALS:
            app.add_exception_handler(error, _respond_own_refusal)

    def __call__(
        self, action: str, object: Of
    ) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]:
        """Guard a route: a template of its object's name, filled from path parameters, or a function of the request."""
        ask = self._asking(action, object)

        def guarded(route: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
            signature = inspect.signature(route, eval_str=True)
            waits = inspect.iscoroutinefunction(route)
            own = next((n for n, p in signature.parameters.items() if _is_request(p)), None)

            @functools.wraps(route)
            async def asked(*given: Any, **named: Any) -> Any:
                request = named[own] if own in named else named.pop(_REQUEST, None) or _found(given)
                try:
                    plan = await ask(request, result=True)
                except Refused as refused:
                    return await _refuse(request, refused.problem)
                try:
                    called = route(*given, **named) if waits else run_in_threadpool(route, *given, **named)
                    result = await called
                except OWN_REFUSALS as error:
                    return await _refuse(request, own_refusal(error).problem)
                return await plan.finish(result)

            if own is None:
                added = inspect.Parameter(_REQUEST, inspect.Parameter.KEYWORD_ONLY, annotation=Request)
                parameters = [*signature.parameters.values(), added]
                parameters.sort(key=lambda each: each.kind)
                signature = signature.replace(parameters=parameters)
            asked.__signature__ = signature  # type: ignore[attr-defined]
            asked.__authfabric__ = (action, object)  # type: ignore[attr-defined]
            return asked

        return guarded

    def dependency(self, action: str, object: Of) -> Callable[[HTTPConnection], Awaitable[Decision]]:
        """The same as a dependency: `Depends(guard.dependency("read", "/documents/{id}"))`.

        It cannot see what the route returns, so an obligation that needs the result is a denial.
        """
        ask = self._asking(action, object)

        async def depends(request: HTTPConnection) -> Decision:
            try:
                return (await ask(request, result=False)).decision
            except Refused as refused:
                detail = refused.decision.as_problem()["detail"]
                raise Denied(refused.problem, str(detail)) from None

        depends.__authfabric__ = (action, object)  # type: ignore[attr-defined]
        return depends

    def _asking(self, action: str, object: Of) -> Callable[..., Awaitable[Plan]]:
        fixed, path = template(object), _PathParameters()

        async def ask(request: HTTPConnection, *, result: bool) -> Plan:
            try:
                named = fixed.fill(path(request)) if fixed else await _awaited(object(request))  # type: ignore[operator]
                subject = await _awaited(self._subject(request))
            except InvalidRequest as error:
                raise invalid(error) from None
            question: Question = (subject, named, action)
            if self._context is not None:
                question = (subject, named, action, self._context(request))
            return await self.permit(self._enforcer(request), question, result=result)

        return ask

    def _enforcer(self, request: HTTPConnection) -> Enforcer:
        """Raises NoEnforcer."""
        found: Enforcer | None = self._pep or getattr(request.app.state, "pep", None)
        if found is None:
            raise NoEnforcer("app.state.pep")
        return found


class _PathParameters:
    """The path's parameters as a route and its dependencies read them: `7` where `07` is read as a number."""

    def __init__(self) -> None:
        self._known: tuple[Any, dict[str, list[Any]]] = (None, {})
        """A route, and by name the parameters that are not read as the texts that they are."""

    def __call__(self, request: HTTPConnection) -> Mapping[str, object]:
        """Raises InvalidRequest for a value that the route does not read, or reads in several ways."""
        sent, route = request.path_params, request.scope.get("route")
        known, fields = self._known
        if route is not known:
            self._known = route, (fields := _path_fields(getattr(route, "dependant", None)))
        if not fields:
            return sent
        values: dict[str, object] = dict(sent)
        for name in fields.keys() & sent.keys():
            first, *others = {shown(_read(each, name, sent[name])) for each in fields[name]}
            if others:
                raise InvalidRequest(name, "must be spelled in one way: the route reads it differently")
            values[name] = first
        return values


def _path_fields(dependant: Any) -> dict[str, list[Any]]:
    """What FastAPI knows of a route's parameters and its dependencies' in the path, but for those that are texts."""
    fields: dict[str, list[Any]] = {}
    left = [] if dependant is None else [dependant]
    while left:
        each = left.pop()
        for field in each.path_params:
            fields.setdefault(field.alias, []).append(field)
        left += each.dependencies
    return {name: several for name, several in fields.items() if not all(map(_is_text, several))}


def _is_text(field: Any) -> bool:
    return field.field_info.annotation is str and not field.field_info.metadata


def _read(field: Any, name: str, value: object) -> object:
    read, problems = field.validate(value, {}, loc=("path", name))
    if problems:
        raise InvalidRequest(name, "is not what the route takes")
    return read


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _is_request(parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    if isinstance(kind, type):
        return issubclass(kind, HTTPConnection) or (kind is parameter.empty and parameter.name == "request")
    return False


def _found(given: tuple[Any, ...]) -> HTTPConnection:
    return next(each for each in given if isinstance(each, HTTPConnection))


async def _refuse(request: HTTPConnection, problem: Problem) -> Response | None:
    """What a guarded route gives instead. A WebSocket is given it here: whatever its route returns goes nowhere."""
    if not isinstance(request, WebSocket):
        return _response(problem)
    if request.application_state is WebSocketState.CONNECTING and _DENIAL in (
        request.scope.get("extensions") or {}
    ):
        await request.send_denial_response(_response(problem))
    elif request.application_state is not WebSocketState.DISCONNECTED:
        await request.close(_POLICY_VIOLATION)
    return None


_DENIAL = "websocket.http.response"
_POLICY_VIOLATION = 1008


def _response(problem: Problem) -> Response:
    return Response(problem.body, problem.status, dict(problem.headers))


async def _respond_denied(request: Request, error: Exception) -> Response:
    assert isinstance(error, Denied)
    return _response(error.problem)


async def _respond_own_refusal(request: Request, error: Exception) -> Response:
    return _response(own_refusal(error).problem)
