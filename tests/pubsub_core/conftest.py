"""A town for the tests that need one."""

from __future__ import annotations

import pytest

from tests.pubsub_core.town import town


@pytest.fixture
async def place(jetstream_server, tmp_path):
    async with town(jetstream_server, tmp_path) as place:
        yield place
