"""Whoever starts before the access control service is let in as soon as that decides, and else told what is missing."""

from __future__ import annotations

import asyncio

import pytest

from bus import NatsServer, NotConnected
from bus.nats.dialing import UNDECIDED
from tests.secured import Secured


@pytest.fixture
async def alone(tmp_path):
    """A secured server whose access control service does not run yet."""
    world = Secured(tmp_path)
    async with NatsServer(jetstream=True, extra=world.security.configuration()) as server:
        world.url = server.url
        yield world


async def test_who_starts_first_waits_for_the_service(alone, caplog):
    async def start() -> None:
        async with alone.connect(connect_seconds=2.0) as bus:
            assert bus.ready

    starting = asyncio.create_task(start())
    while not caplog.messages:  # noqa: ASYNC110 - the first attempts have failed by then
        await asyncio.sleep(0.05)
    async with alone.access():
        await starting
    assert f"{UNDECIDED}; trying for 28 s more" in caplog.text


async def test_when_the_time_is_over_it_is_said_what_is_missing(alone):
    with pytest.raises(NotConnected, match="does the access control service run"):
        async with alone.connect(connect_seconds=2.0, admission_seconds=2.0):
            pass


async def test_who_is_turned_away_is_told_at_once(alone):
    async with alone.access() as access:
        with pytest.raises(NotConnected, match="Authorization Violation"):
            async with alone.connect(alone.credentials(seconds=-60)):
                pass
        assert access.refused == 1
