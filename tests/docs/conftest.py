"""A fabric with the default policies, for what the pages promise."""

import asyncio
from collections.abc import Iterator

import pytest

from authfabric.fabric import fabric
from bus.connection import URL_VARIABLE


@pytest.fixture(scope="module")
def _fabric_url() -> Iterator[str]:
    with asyncio.Runner() as runner:
        context = fabric(1)
        yield runner.run(context.__aenter__()).url
        runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def running_fabric(_fabric_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a running fabric, which is also what AUTHFABRIC_NATS_URL says meanwhile."""
    monkeypatch.setenv(URL_VARIABLE, _fabric_url)
    return _fabric_url
