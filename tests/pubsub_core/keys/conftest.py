"""The police's brokers and their keys, for each test that asks for them."""

from __future__ import annotations

import pytest

from tests.pubsub_core.keys.police import police
from tests.pubsub_core.town import town


@pytest.fixture
async def network(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as home, police(home) as network:
        yield network
