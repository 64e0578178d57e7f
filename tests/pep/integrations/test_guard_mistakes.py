"""What developers get wrong with guards: nobody is let in, and the error that the server logs says what to do."""

from __future__ import annotations

from typing import ClassVar

import pytest

from authfabric.testing import TestedFabric
from pep.integrations.core import PUBLIC

WHO = {"x-user": "ann"}


def fastapi_status(object: str, pep: object) -> int:
    fastapi = pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from pep.integrations.fastapi import Guard

    guard = Guard(subject=lambda request: request.headers["x-user"])
    app = fastapi.FastAPI()

    @app.get("/notes/{id}")
    @guard("read", object)
    async def read(id: str) -> str:
        return "let in"

    if pep is not None:
        app.state.pep = pep
    return TestClient(app).get("/notes/1", headers=WHO).status_code


def flask_status(object: str, pep: object) -> int:
    flask = pytest.importorskip("flask")
    from pep.integrations.flask import EXTENSION, Guard

    guard = Guard(subject=lambda request: request.headers["x-user"])
    app = flask.Flask(__name__)
    app.testing = True

    @app.get("/notes/<id>")
    @guard("read", object)
    def read(id: str) -> str:
        return "let in"

    if pep is not None:
        app.extensions[EXTENSION] = pep
    return app.test_client().get("/notes/1", headers=WHO).status_code


@pytest.fixture
def fabric():
    tested = TestedFabric()
    tested.grant("ann", "/notes/*", "read")
    yield tested
    tested.close()


def test_a_field_that_the_route_has_not(fabric):
    assert fastapi_status("/notes/{id}", fabric.pep) == 200
    assert flask_status("/notes/{id}", fabric.sync) == 200
    with pytest.raises(Exception, match=r"`/notes/{ident}` needs `ident`, and the route has `id`"):
        fastapi_status("/notes/{ident}", fabric.pep)
    with pytest.raises(Exception, match=r"`/notes/{ident}` needs `ident`, and the route has `id`"):
        flask_status("/notes/{ident}", fabric.sync)


def test_no_enforcer():
    with pytest.raises(Exception, match=r"no enforcer is set: .*app.state.pep"):
        fastapi_status("/notes/{id}", None)
    with pytest.raises(Exception, match=r"no enforcer is set: .*app.extensions\[.authfabric.\]"):
        flask_status("/notes/{id}", None)


def test_a_class_of_django_that_would_never_ask(fabric):
    from django.views import View

    from pep.integrations.django import GuardedView

    with pytest.raises(TypeError, match="`Notes` must name GuardedView before View"):

        class Notes(View, GuardedView):
            pass


def test_a_class_of_django_asks_about_the_object_that_it_or_its_urls_name(fabric, django_requests):
    from django.http import HttpResponse
    from django.views import View

    from pep.integrations.django import Guard, GuardedView

    class Notes(GuardedView, View):
        guard = Guard(fabric.sync, subject=lambda _: "ann")
        actions: ClassVar = {"get": "read"}

        def object(request):  # noqa: N805 - Django calls it with the request alone
            return "/notes/1"

        def get(self, request) -> HttpResponse:
            return HttpResponse("let in")

    class Inherited(Notes):
        pass

    asked = django_requests.get("/notes")
    assert Notes.as_view()(asked).status_code == 200
    assert Inherited.as_view()(asked).status_code == 200
    assert Notes.as_view(object="/secrets/1")(asked).status_code == 403
    assert fabric.questions[-1] == ("ann", "/secrets/1", "read")


@pytest.mark.parametrize("answers", [True, False])
async def test_a_websocket_that_is_refused_is_told_why_where_the_server_can(fabric, answers):
    from pep.integrations.asgi import GuardMiddleware

    async def let_in(scope, receive, send) -> None:
        raise AssertionError("it is not allowed")

    async def send(message) -> None:
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    sent: list[dict[str, object]] = []
    if not answers:
        fabric.fail()
    guarded = GuardMiddleware(let_in, lambda _: ("bob", "/notes/1", "read"), fabric.pep)
    await guarded({"type": "websocket", "extensions": {"websocket.http.response": {}}}, receive, send)
    assert (sent[0]["type"], sent[0]["status"]) == (
        "websocket.http.response.start",
        403 if answers else 503,
    )
    sent.clear()
    await guarded({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_connection_of_another_kind_than_can_be_asked_about_is_not_let_through(fabric):
    from pep.integrations.asgi import GuardMiddleware, UnknownScope

    async def let_in(scope, receive, send) -> None:
        arrived.append(scope["type"])

    arrived: list[str] = []
    guarded = GuardMiddleware(let_in, lambda _: PUBLIC, fabric.pep)
    with pytest.raises(UnknownScope, match="webtransport"):
        await guarded({"type": "webtransport"}, None, None)
    await guarded({"type": "lifespan"}, None, None)
    assert arrived == ["lifespan"]
