"""One secured bus for the tests of a module."""

from __future__ import annotations

import pytest
import pytest_asyncio

from bus.server.server_config import Limits
from pdp.access import AccessRules, AccessService
from pdp.access.connection_accounting import Share
from tests.secured import Secured, secured


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory):
    limits, share = Limits(subscriptions=50), Share(messages_per_second=2000, ban_seconds=3600)
    folder = tmp_path_factory.mktemp("domain")
    async with secured(folder, limits=limits, share=share, rules=AccessRules(connections=5)) as world:
        yield world


@pytest.fixture
def world(running) -> Secured:
    return running[0]


@pytest.fixture
def access(running) -> AccessService:
    return running[1]
