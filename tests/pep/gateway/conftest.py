"""One fabric and one open gateway for all tests that break neither."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import httpx
import pytest

from authfabric.processes.launcher import Fabric, fabric
from pep.sync import LoopThread
from tests.pep.gateway.running import POLICIES, gateway_process


@pytest.fixture(scope="module")
def running() -> Iterator[Fabric]:
    with contextlib.closing(LoopThread()) as loop:
        context = fabric(1, policies=POLICIES)
        yield loop.run(context.__aenter__())
        loop.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def opened(running: Fabric) -> Iterator[httpx.AsyncClient]:
    """A gateway that answers everyone."""
    with contextlib.closing(LoopThread()) as loop:
        context = gateway_process(running, "--anonymous", "--base-url", "https://pdp.example.org")
        yield loop.run(context.__aenter__())
        loop.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def address(opened: httpx.AsyncClient) -> str:
    return str(opened.base_url)


@pytest.fixture(scope="module")
def process(opened: httpx.AsyncClient) -> int:
    return opened.process


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30.0) as client:
        yield client
