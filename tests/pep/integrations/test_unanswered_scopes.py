"""What a route asks by itself, such as a scope, and the fabric does not answer, is 503 for the caller as well."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar
from uuid import uuid4

import flask
import grpc
import pytest
from django.views import View
from fastapi import FastAPI
from fastapi.testclient import TestClient
from faststream.nats import NatsBroker

from authfabric.testing import TestedFabric, routes_of
from bus.errors import NoResponders
from bus.server import NatsServer
from pep.integrations.asgi import GuardMiddleware
from pep.integrations.django import Guard as DjangoGuard
from pep.integrations.django import GuardedView
from pep.integrations.fastapi import Guard
from pep.integrations.faststream import Guard as FastStreamGuard
from pep.integrations.flask import EXTENSION
from pep.integrations.flask import Guard as FlaskGuard
from pep.integrations.grpc import AioGuard, ThreadGuard
from tests.waiting import PATIENCE


@pytest.fixture
def fabric():
    made = TestedFabric()
    made.grant("ann", "/notes*", "*")
    yield made
    made.close()


def is_unavailable(status: int, headers, body: bytes) -> bool:
    return (status, headers["Retry-After"]) == (503, "1") and b"Try again later" in body


def fastapi_app(fabric: TestedFabric, before_scope=lambda: None) -> FastAPI:
    app = FastAPI(openapi_url=None)
    app.state.pep = fabric.pep
    guard = Guard(subject=lambda _: "ann")
    guard.install(app)

    @app.get("/guarded")
    @guard("list", "/notes")
    async def guarded() -> str:
        before_scope()
        return str(await fabric.pep.scope("ann", "read", "/notes/"))

    @app.get("/open")
    async def unguarded() -> str:
        before_scope()
        return str(await fabric.pep.scope("ann", "read", "/notes/"))

    return app


@pytest.mark.parametrize("path", ["/guarded", "/open"])
def test_what_no_pdp_can_look_up_is_unavailable_and_the_log_says_what_to_do(fabric, path, caplog):
    fabric.load({"bundle.yaml": "name: notes\nprovided: [subject.team]\n", "notes.yaml": "[]"})
    answer = TestClient(fastapi_app(fabric)).get(path)
    assert is_unavailable(answer.status_code, answer.headers, answer.content)
    assert "there is no scope: nothing provides `subject.team` here: name a provider" in caplog.text


@pytest.mark.parametrize("path", ["/guarded", "/open"])
def test_in_fastapi(fabric, path):
    client = TestClient(fastapi_app(fabric, fabric.fail))
    answer = client.get(path)
    assert is_unavailable(answer.status_code, answer.headers, answer.content)


def test_in_flask(fabric):
    app = flask.Flask("notes")
    app.extensions[EXTENSION] = fabric.sync
    guard = FlaskGuard(subject=lambda _: "ann")

    @app.get("/notes")
    @guard("list", "/notes")
    def notes() -> str:
        fabric.fail()
        return str(fabric.sync.scope("ann", "read", "/notes/"))

    answer = app.test_client().get("/notes")
    assert is_unavailable(answer.status_code, answer.headers, answer.data)


def test_in_django(fabric, django_requests):
    guard = DjangoGuard(fabric.sync, subject=lambda _: "ann")

    @guard("list", "/notes")
    def notes(request) -> str:
        fabric.fail()
        return str(fabric.sync.scope("ann", "read", "/notes/"))

    answer = notes(django_requests.get("/notes"))
    assert is_unavailable(answer.status_code, answer.headers, answer.content)


async def test_in_an_async_class_of_django(fabric, django_requests):
    class Notes(GuardedView, View):
        guard = DjangoGuard(fabric.sync, subject=lambda _: "ann")
        object = "/notes"
        actions: ClassVar = {"get": "list"}

        async def get(self, request) -> str:
            fabric.fail()
            return str(await fabric.pep.scope("ann", "read", "/notes/"))

        async def post(self, request) -> str:
            raise AssertionError("no action is named")

    answer = await Notes.as_view()(django_requests.get("/notes"))
    assert is_unavailable(answer.status_code, answer.headers, answer.content)
    assert (await Notes.as_view()(django_requests.post("/notes"))).status_code == 405


def test_in_the_rest_framework(fabric, django_requests):
    from rest_framework.decorators import api_view, permission_classes

    guard = DjangoGuard(fabric.sync, subject=lambda _: "ann")

    @api_view(["GET"])
    @permission_classes([guard.permission("list", "/notes")])
    def notes(request) -> str:
        fabric.fail()
        return str(fabric.sync.scope("ann", "read", "/notes/"))

    answer = notes(django_requests.get("/notes")).render()
    assert is_unavailable(answer.status_code, answer.headers, answer.content)


@pytest.mark.parametrize("begun", [False, True])
def test_in_any_asgi_application(fabric, begun):
    async def notes(scope, receive, send) -> None:
        fabric.fail()
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await fabric.pep.scope("ann", "read", "/notes/")

    guarded = GuardMiddleware(notes, lambda _: ("ann", "/notes", "list"), fabric.pep)
    if begun:
        with pytest.raises(NoResponders):
            TestClient(guarded).get("/notes")
    else:
        answer = TestClient(guarded).get("/notes")
        assert is_unavailable(answer.status_code, answer.headers, answer.content)


METHODS = ["Unary", "Stream", "Written"]


def grpc_codes(port: int, method: str) -> tuple[object, object, object]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        kind = channel.unary_unary if method == "Unary" else channel.unary_stream
        call = kind(f"/notes.Notes/{method}")
        with pytest.raises(grpc.RpcError) as raised:
            list(call(b"", timeout=PATIENCE))
    return (
        raised.value.code(),
        raised.value.details(),
        dict(raised.value.trailing_metadata()).get("retry-after"),
    )


UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, "Access cannot be decided now. Try again later.", "1")


@pytest.mark.parametrize("method", METHODS)
async def test_in_grpc_on_asyncio(fabric, method):
    async def unary(message, context) -> bytes:
        fabric.fail()
        return str(await fabric.pep.scope("ann", "read", "/notes/")).encode()

    async def stream(message, context):
        yield b"one"
        yield await unary(message, context)

    async def written(message, context) -> None:
        await context.write(b"one")
        await context.write(await unary(message, context))

    server = grpc.aio.server(interceptors=[AioGuard(fabric.pep, lambda _: ("ann", "/notes", "list"))])
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Stream": grpc.unary_stream_rpc_method_handler(stream),
        "Written": grpc.unary_stream_rpc_method_handler(written),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("notes.Notes", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert await asyncio.to_thread(grpc_codes, port, method) == UNAVAILABLE
    finally:
        await server.stop(None)


@pytest.mark.parametrize("method", METHODS[:2])
def test_in_grpc_with_threads(fabric, method):
    def unary(message, context) -> bytes:
        fabric.fail()
        return str(fabric.sync.scope("ann", "read", "/notes/")).encode()

    def stream(message, context):
        yield b"one"
        yield unary(message, context)

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(
            pool, interceptors=[ThreadGuard(fabric.sync, lambda _: ("ann", "/notes", "list"))]
        )
        handlers = {
            "Unary": grpc.unary_unary_rpc_method_handler(unary),
            "Stream": grpc.unary_stream_rpc_method_handler(stream),
        }
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("notes.Notes", handlers)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            assert grpc_codes(port, method) == UNAVAILABLE
        finally:
            server.stop(None).wait()


async def test_in_faststream(fabric, server: NatsServer):
    broker = NatsBroker(server.url, logger=None)
    guard = FastStreamGuard(fabric.pep, subject=lambda _: "ann")
    subject = f"notes.{uuid4().hex}"

    @broker.subscriber(subject)
    @guard("list", "/notes")
    async def notes(message: str) -> str:
        fabric.fail()
        return str(await fabric.pep.scope("ann", "read", "/notes/"))

    async with broker:
        await broker.start()
        answer = await broker.request("", subject, timeout=PATIENCE)
    assert is_unavailable(int(answer.headers["status"]), answer.headers, answer.body)


@pytest.mark.parametrize("kind", ["tool", "resource"])
async def test_in_fastmcp(fabric, kind):
    from fastmcp import Client, FastMCP  # here: it takes seconds in every process that collects tests

    from pep.integrations.fastmcp import Guard as McpGuard

    fabric.grant("ann", "*", "*")
    mcp = FastMCP("notes", middleware=[McpGuard(fabric.pep, subject=lambda _: "ann")])

    async def notes() -> str:
        fabric.fail()
        return str(await fabric.pep.scope("ann", "read", "/notes/"))

    mcp.tool(notes)
    mcp.resource("notes://all")(notes)
    async with Client(mcp) as client:
        with pytest.raises(Exception, match="cannot be decided now") as told:
            await (client.call_tool("notes") if kind == "tool" else client.read_resource("notes://all"))
    assert "no responders" not in str(told.value).lower()


def test_what_a_route_requires_by_itself_is_a_denial_that_names_no_policy(fabric):
    fabric.deny("ann", "/notes/2", "read")
    app = FastAPI(openapi_url=None)
    app.state.pep = fabric.pep
    guard = Guard(subject=lambda _: "ann")

    @app.get("/notes")
    @guard("list", "/notes")
    async def notes() -> None:
        await fabric.pep.require("ann", "/notes/2", "read")

    answer = TestClient(app).get("/notes")
    assert answer.status_code == 403
    assert answer.json() == {
        "type": "about:blank", "title": "Forbidden", "status": 403, "detail": "You may not do this.",
    }  # fmt: skip


async def test_what_a_tool_requires_by_itself_names_no_policy(fabric):
    from fastmcp import Client, FastMCP

    from pep.integrations.fastmcp import Guard as McpGuard

    fabric.grant("ann", "*", "*")
    fabric.deny("ann", "/notes/2", "read")
    mcp = FastMCP("notes", middleware=[McpGuard(fabric.pep, subject=lambda _: "ann")])

    @mcp.tool
    async def note() -> None:
        await fabric.pep.require("ann", "/notes/2", "read")

    async with Client(mcp) as client:
        with pytest.raises(Exception, match="You may not do this") as told:
            await client.call_tool("note")
    assert "polic" not in str(told.value)
    assert "/notes/2" not in str(told.value)


async def test_a_fabric_that_fails_gives_no_scope(fabric):
    fabric.fail()
    with pytest.raises(NoResponders):
        await fabric.pep.scope("ann", "read", "/notes/")


def test_a_route_that_asks_for_a_scope_is_protected(fabric):
    app = fastapi_app(fabric)
    client = TestClient(app)
    matrix = fabric.matrix(lambda _, route: client.get(route.path).status_code, ["ann"], routes_of(app))
    matrix.require_protected()
    assert ("ann", "/notes/", "read") in fabric.scopes
