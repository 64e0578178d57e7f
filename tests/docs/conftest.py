"""A fabric with the default policies that refuses strangers, for what the pages promise."""

import contextlib
from collections.abc import Iterator

import pytest

from authfabric.processes.launcher import fabric
from authfabric.processes.local_domain import SERVICE
from bus.identity.credentials_store import VARIABLE
from bus.wire.address import URL_VARIABLE
from pep.sync import LoopThread


@pytest.fixture(scope="module")
def _secure_fabric() -> Iterator[tuple[str, str]]:
    """Its URL, and the credentials of a service. It decides who connects, so its event loop must go on meanwhile."""
    with contextlib.closing(LoopThread()) as loop:
        context = fabric(1, secure=True)
        running = loop.run(context.__aenter__())
        yield running.url, str(running.hand_out("service", SERVICE))
        loop.run(context.__aexit__(None, None, None))


@pytest.fixture
def running_fabric(_secure_fabric: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a running fabric; the environment names it meanwhile, and credentials for it."""
    url, credentials = _secure_fabric
    monkeypatch.setenv(URL_VARIABLE, url)
    monkeypatch.setenv(VARIABLE, credentials)
    return url
