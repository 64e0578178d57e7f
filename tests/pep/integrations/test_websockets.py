"""WebSockets of FastAPI: a guard refuses them before they are open, and never by silence."""

from __future__ import annotations

from typing import Any

import pytest

from authfabric.testing import TestedFabric

fastapi = pytest.importorskip("fastapi")

from fastapi.testclient import TestClient  # noqa: E402
from starlette.testclient import WebSocketDenialResponse  # noqa: E402
from starlette.websockets import WebSocket, WebSocketDisconnect  # noqa: E402

from pep.integrations.fastapi import Guard  # noqa: E402

guard = Guard(subject=lambda connection: connection.headers["x-user"])
app = fastapi.FastAPI()
guard.install(app)


async def greet(websocket: WebSocket, id: str) -> None:
    await websocket.accept()
    await websocket.send_text("hello")


async def ask_later(websocket: WebSocket, id: str) -> None:
    await websocket.accept()
    await websocket.app.state.pep.require("ann", "/notes/secret", "read")


app.websocket("/decorated/{id}")(guard("read", "/notes/{id}")(greet))
app.websocket("/later/{id}")(guard("read", "/notes/{id}")(ask_later))
depending = [fastapi.Depends(guard.dependency("read", "/notes/{id}"))]
app.websocket("/depending/{id}", dependencies=depending)(greet)


@pytest.fixture
def fabric() -> Any:
    fabric = TestedFabric()
    app.state.pep = fabric.pep
    fabric.grant("ann", "/notes/1", "read")
    return fabric


def refused(path: str, user: str) -> WebSocketDenialResponse:
    with (
        pytest.raises(WebSocketDenialResponse) as told,
        TestClient(app).websocket_connect(path, headers={"x-user": user}),
    ):
        pass
    return told.value


@pytest.mark.parametrize("path", ["/decorated/1", "/depending/1"])
def test_who_may_is_let_in_and_who_may_not_is_told_before_it_is_open(fabric: TestedFabric, path: str):
    with TestClient(app).websocket_connect(path, headers={"x-user": "ann"}) as opened:
        assert opened.receive_text() == "hello"
    denied = refused(path, "bob")
    assert (denied.status_code, denied.json()["detail"]) == (403, "You may not do this.")
    assert denied.headers["content-type"] == "application/problem+json"
    fabric.fail()
    failed = refused(path, "ann")
    assert (failed.status_code, failed.headers["retry-after"]) == (503, "1")


def test_what_an_open_one_asks_by_itself_and_may_not_closes_it(fabric: TestedFabric):
    with (
        TestClient(app).websocket_connect("/later/1", headers={"x-user": "ann"}) as opened,
        pytest.raises(WebSocketDisconnect) as closed,
    ):
        opened.receive_text()
    assert closed.value.code == 1008
