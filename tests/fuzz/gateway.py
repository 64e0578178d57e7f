"""The gateway as its callers reach it: whatever they send as body, token or header, decided in this process."""

from __future__ import annotations

import asyncio
import atexit
import base64
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.sdk.trace import TracerProvider
from starlette.types import ASGIApp, Message

from authz import Identity
from bus.runtime.tracing import Traces
from pep import Enforcer
from pep.gateway import GatewaySettings, gateway
from pep.gateway.errors import Refused
from pep.gateway.settings import Caller, Jwt

KEY = Identity.from_seed(b"f" * 32)
"""Whose public half stands in `jwks.json`."""
ISSUER, AUDIENCE = "https://idp.example.org", "authzen"
HEADER = b'{"alg":"EdDSA","kid":"1"}'
CLAIMS = b'{"iss":"https://idp.example.org","aud":"authzen","exp":4000000000,"sub":"ann"}'
THING = {"type": "user", "id": "ann", "properties": {"role": "clerk"}}
QUESTION: dict[str, Any] = {
    "subject": THING,
    "action": {"name": "read"},
    "resource": {"type": "order", "id": "7", "properties": {"lines": [1, {"of": None}]}},
    "context": {"at": 9.5},
}
POLICIES = {
    "orders.yaml": "- {uid: r, effect: allow, targets: {subject_id: ann, resource_id: /order/*}, rules: {}}",
    "entities.yaml": "subjects: {ann: {role: clerk}}\nobjects: [/order/7, /order/8]\nactions: [read, write]",
}
_SETTINGS = GatewaySettings(
    callers=(
        Caller("people", jwt=Jwt(ISSUER, AUDIENCE, str(Path(__file__).with_name("jwks.json")), "sub")),
        Caller("mesh", certificate="spiffe://example.org/mesh"),
    ),
    anonymous=True,
)


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


def page(**page: object) -> bytes:
    """A search, for one page of what is found."""
    return encoded(QUESTION | {"page": page})


def token(header: bytes, claims: bytes) -> bytes:
    """A JSON Web Token that the issuer has signed, whatever it says."""
    text = b".".join(base64.urlsafe_b64encode(each).rstrip(b"=") for each in (header, claims))
    return text + b"." + base64.urlsafe_b64encode(KEY.sign(text)).rstrip(b"=")


@cache
def _runner() -> asyncio.Runner:
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


@cache
def _app() -> ASGIApp:
    async def make() -> ASGIApp:
        return gateway(await Enforcer.local(POLICIES, recycling=None).__aenter__(), _SETTINGS)

    return _runner().run(make())


def send(path: str, body: bytes, authorization: bytes = b"") -> dict[str, Any]:
    """The answer to a request. Raises Refused for one that is refused, and what the gateway does not answer."""
    headers = [(b"content-type", b"application/json")]
    headers += [(b"authorization", authorization)] if authorization else []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": f"/access/v1/{path}",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
    }
    sent = list[Message]()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def answer(message: Message) -> None:
        sent.append(message)

    async def ask() -> None:
        await _app()(scope, receive, answer)

    _app()
    _runner().run(ask())
    answered: dict[str, Any] = msgspec.json.decode(b"".join(each.get("body", b"") for each in sent))
    if sent[0]["status"] != 200:
        raise Refused(sent[0]["status"], answered["detail"])
    return answered


def _body(path: str) -> Callable[[bytes], object]:
    return lambda data: send(path, data)


def _bearer(data: bytes) -> None:
    send("evaluation", encoded(QUESTION), b"Bearer " + data)


def _traceparent(data: bytes) -> None:
    with _traces().continued("authfabric.gateway", data.decode("latin-1")):
        pass


@cache
def _traces() -> Traces:
    traces = Traces()
    traces.use(TracerProvider(shutdown_on_exit=False).get_tracer("fuzz"))
    return traces


READERS: Mapping[str, Callable[[bytes], object]] = {
    "evaluation": _body("evaluation"),
    "evaluations": _body("evaluations"),
    "subjects": _body("search/subject"),
    "resources": _body("search/resource"),
    "actions": _body("search/action"),
    "page": lambda data: send("search/action", page(token=data.decode("latin-1"))),
    "bearer": _bearer,
    "claims": lambda data: _bearer(token(HEADER, data)),
    "header": lambda data: _bearer(token(data, CLAIMS)),
    "traceparent": _traceparent,
}
