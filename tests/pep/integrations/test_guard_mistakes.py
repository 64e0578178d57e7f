"""What developers get wrong with guards: nobody is let in, and the error that the server logs says what to do."""

from __future__ import annotations

import pytest

from authfabric.testing import TestedFabric

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
