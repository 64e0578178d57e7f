"""What a route asks by itself, such as a scope, and the fabric does not answer, is 503 for the caller as well."""

from __future__ import annotations

import django
import flask
import pytest
from django.conf import settings as django_settings
from django.test import RequestFactory
from fastapi import FastAPI
from fastapi.testclient import TestClient

from authfabric.testing import TestedFabric, routes_of
from bus.errors import NoResponders
from pep.integrations.django import Guard as DjangoGuard
from pep.integrations.fastapi import Guard
from pep.integrations.flask import EXTENSION
from pep.integrations.flask import Guard as FlaskGuard


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


def test_in_django(fabric):
    if not django_settings.configured:
        django_settings.configure(ALLOWED_HOSTS=["testserver"])
        django.setup()
    guard = DjangoGuard(fabric.sync, subject=lambda _: "ann")

    @guard("list", "/notes")
    def notes(request) -> str:
        fabric.fail()
        return str(fabric.sync.scope("ann", "read", "/notes/"))

    answer = notes(RequestFactory().get("/notes"))
    assert is_unavailable(answer.status_code, answer.headers, answer.content)


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
