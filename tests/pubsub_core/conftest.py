"""A town for the tests that need one."""

from __future__ import annotations

import pytest

from tests.pubsub_core.town import town
from tests.waiting import PATIENCE


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        yield place


@pytest.fixture(autouse=True)
def _certain(monkeypatch):
    """Tests see to it themselves that brokers know each other; what others know of fluents is waited for."""
    monkeypatch.setattr("pubsub_core.fluent_doubt.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.fluent_exchange_service.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.fluent_doubt.HELD_SECONDS", PATIENCE)
