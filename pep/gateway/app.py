"""The gateway as an ASGI application: `gateway(pep, settings)`, to serve or to mount in another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from authz import AuthFabricError, InvalidRequest
from authz.errors import UNREADABLE
from bus.runtime import TRACES
from pep.enforcer import Enforcer
from pep.gateway.callers import Callers, Identified
from pep.gateway.entity_types import EntityTypes
from pep.gateway.errors import Refused, UnknownType
from pep.gateway.evaluation import UNAVAILABLE, Evaluator
from pep.gateway.messages import ActionSearch, Batch, Evaluation, ResourceSearch, SubjectSearch
from pep.gateway.search import Searches
from pep.gateway.settings import MAX_BYTES, GatewaySettings
from pep.gateway.watching import Watches

Given = TypeVar("Given")
Message = TypeVar("Message")
Responding = TypeVar("Responding", bound=Response)

RETRY_SECONDS = 1
"""After how many seconds a client may try again where the fabric could not answer."""
BASE = "/access/v1"
_DISCOVERY = "/.well-known/authzen-configuration"
_ENDPOINTS = {
    "access_evaluation_endpoint": "/evaluation",
    "access_evaluations_endpoint": "/evaluations",
    "search_subject_endpoint": "/search/subject",
    "search_resource_endpoint": "/search/resource",
    "search_action_endpoint": "/search/action",
}
_encode = msgspec.json.Encoder().encode
_read_evaluation = msgspec.json.Decoder(Evaluation).decode


def gateway(pep: Enforcer, settings: GatewaySettings) -> Starlette:
    """AuthZEN 1.0 in front of an enforcer. Raises InvalidSettings."""
    settings.validate("settings")
    subjects = EntityTypes("subject", settings.subjects)
    resources = EntityTypes("resource", settings.resources)
    callers = Callers(settings)
    watches = Watches(pep)
    evaluator, searches = Evaluator(pep, subjects, resources), Searches(pep, subjects, resources)

    async def evaluations(batch: Batch, caller: Identified) -> dict[str, Any]:
        if not batch.evaluations:
            return await evaluator.one(_checked(_evaluation, batch.defaults), caller)
        return {"evaluations": await evaluator.several(batch, caller)}

    def post(
        path: str, kind: type[Message], work: Callable[[Message, Identified], Awaitable[dict[str, Any]]]
    ) -> Route:
        read = msgspec.json.Decoder(kind).decode

        async def endpoint(request: HttpRequest) -> Response:
            extensions = request.scope.get("extensions") or {}
            caller = await callers.identify(request.scope["headers"], extensions.get("tls") or {})
            message = _checked(read, await _body(request))
            parent = request.headers.get("traceparent", "") if TRACES.on else ""
            with TRACES.continued("authfabric.gateway", parent):
                return _respond(request, 200, await work(message, caller))

        return Route(BASE + path, endpoint, methods=["POST"])

    async def watch(request: HttpRequest) -> Response:
        extensions = request.scope.get("extensions") or {}
        caller = await callers.identify(request.scope["headers"], extensions.get("tls") or {})
        try:
            asked = evaluator.request(_checked(_read_evaluation, await _body(request)), caller)
        except UnknownType as error:
            raise Refused(400, str(error)) from None
        events = watches.events(asked, caller)
        first = await anext(events)  # too many watches, or what cannot be asked, is an error and no stream

        async def all_events() -> AsyncIterator[bytes]:
            async with aclosing(events):
                yield first
                async for event in events:
                    yield event

        unkept = {"Cache-Control": "no-store"}
        return _identified(request, StreamingResponse(all_events(), 200, unkept, "text/event-stream"))

    async def discovery(request: HttpRequest) -> Response:
        if settings.base_url is None:
            raise Refused(404, "base_url is not set, so there is nothing to discover")
        base = settings.base_url.rstrip("/")
        known = {name: f"{base}{BASE}{path}" for name, path in _ENDPOINTS.items()}
        return _respond(request, 200, {"policy_decision_point": settings.base_url, **known})

    app = Starlette(
        routes=[
            post("/evaluation", Evaluation, evaluator.one),
            post("/evaluations", Batch, evaluations),
            Route(BASE + "/evaluation/watch", watch, methods=["POST"]),
            post("/search/subject", SubjectSearch, searches.subject),
            post("/search/resource", ResourceSearch, searches.resource),
            post("/search/action", ActionSearch, searches.action),
            *(Route(path, discovery, methods=["GET"]) for path in _discovery_paths(settings.base_url)),
        ],
        exception_handlers={
            AuthFabricError: _refuse,
            HTTPException: _refuse,
            RecursionError: _refuse,
            Exception: _refuse,
        },
    )
    app.router.redirect_slashes = False  # it would redirect to whatever the Host header names
    return app


def _discovery_paths(base_url: str | None) -> list[str]:
    """Where discovery is: at the root, and where the standard puts it for a base URL that has a path."""
    below = urlsplit(base_url or "").path.rstrip("/")
    return [_DISCOVERY, *([_DISCOVERY + below] if below else [])]


def _evaluation(fields: dict[str, Any]) -> Evaluation:
    return msgspec.convert(fields, Evaluation)


def _checked(read: Callable[[Given], Message], given: Given) -> Message:
    try:
        return read(given)
    except msgspec.ValidationError as error:
        raise Refused(400, str(error)) from None
    except UNREADABLE as error:
        raise Refused(400, f"the body is no JSON document: {error}") from None


async def _body(request: HttpRequest) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(400, "the Content-Type must be application/json")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BYTES:
            raise Refused(413, f"the body is longer than {MAX_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def _refuse(request: HttpRequest, error: Exception) -> Response:
    """An error as problem+json. What is not understood is a fault of ours, and says nothing more."""
    if isinstance(error, HTTPException):
        return _problem(request, error.status_code, error.detail, dict(error.headers or {}))
    if isinstance(error, Refused):
        return _problem(request, error.status, str(error))
    if isinstance(error, InvalidRequest):
        return _problem(request, 400, str(error))
    if isinstance(error, RecursionError):
        return _problem(request, 400, "the body is nested too deeply")
    if not isinstance(error, AuthFabricError):
        return _problem(request, 500, "the gateway failed")
    return _problem(request, UNAVAILABLE, "the fabric cannot answer now")


def _problem(
    request: HttpRequest, status: int, detail: str, headers: dict[str, str] | None = None
) -> Response:
    headers = headers or {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status == UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_SECONDS)
    body = {"title": _TITLES.get(status, "Error"), "status": status, "detail": detail}
    return _respond(request, status, body, "application/problem+json", headers)


_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


def _respond(
    request: HttpRequest,
    status: int,
    body: object,
    kind: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Response:
    return _identified(request, Response(_encode(body), status, headers, kind))


def _identified(request: HttpRequest, response: Responding) -> Responding:
    """The response with the identifier that the request has, whatever it is: the server takes no line breaks in it."""
    response.raw_headers += [each for each in request.scope["headers"] if each[0] == b"x-request-id"]
    return response
