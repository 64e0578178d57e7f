"""A bus for role services."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bus import Connection, NatsServer
from tests.pdp.sessions.role_world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        yield World(server, bus)
