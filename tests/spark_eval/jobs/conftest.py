"""A server that keeps an audit stream, for jobs that read it."""

from __future__ import annotations

import asyncio

import pytest

from bus import NatsServer


@pytest.fixture
def server():
    server = NatsServer(jetstream=True)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.__aexit__(None, None, None))
