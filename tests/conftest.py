"""What the tests share: a real NATS server for the whole run, and a fresh connection to it for each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import settings

from bus import Connection, NatsServer
from bus.address import URL_VARIABLE
from bus.credentials_store import VARIABLE

settings.register_profile("fabric", deadline=None)  # how long an example takes says nothing about its promise
settings.load_profile("fabric")


@pytest.fixture(autouse=True)
def _no_other_fabric(monkeypatch, tmp_path):
    """No test finds the server or the files of whoever runs it."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    for kind in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))


@pytest.fixture(scope="session")
def server() -> Iterator[NatsServer]:
    """One server for all tests that do not break theirs."""
    server = NatsServer()
    asyncio.run(server.start())
    yield server
    asyncio.run(server.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def jetstream_server() -> Iterator[NatsServer]:
    """One server with JetStream for all tests that do not break theirs."""
    server = NatsServer(jetstream=True)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.__aexit__(None, None, None))


@pytest.fixture
async def own_server() -> AsyncIterator[NatsServer]:
    """A server for one test, to be killed, frozen or wedged."""
    async with NatsServer() as server:
        yield server


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[Connection]:
    async with Connection(server.url) as connection:
        yield connection
