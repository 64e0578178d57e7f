"""What the tests share: a real NATS server for the whole run, a fresh connection to it for each test, and processes."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from bus import Connection, NatsServer
from bus.identity.credentials_store import VARIABLE
from bus.wire.address import URL_VARIABLE

settings.register_profile(
    "fabric", deadline=None, max_examples=40
)  # an example's time says nothing about its promise
settings.load_profile("fabric")
gc.disable()  # until all tests are collected: none of that is garbage

TOGETHER = ("tests/spark_eval/", "tests/pubsub_core/history/")
"""Folders whose tests share something that takes seconds to start: Spark, PostgreSQL."""
LONGEST = (
    "tests/spark_eval/",
    "tests/authfabric/test_push.py",
    "tests/docs/",
    "tests/authfabric/chaos/test_run.py",
    "tests/authfabric/test_recycling.py",
    "tests/authfabric/test_roles.py",
    "tests/authfabric/test_event_gaps.py",
    "tests/authfabric/test_large_release.py",
    "tests/authfabric/test_commands.py",
    "tests/authfabric/test_restored_store.py",
    "tests/authfabric/test_documents.py",
    "tests/authfabric/test_server_restarts.py",
    "tests/authfabric/scenarios/",
    "tests/authfabric/",
    "tests/pep/integrations/",
    "tests/pubsub_core/history/",
)
"""What takes longest, by the beginning of its path: it is begun first, so that no process is left alone with it.

Tests of logic come last. Each of their modules takes little, so that all processes end at about the same time.
"""


def _scope(nodeid: str) -> str:
    module = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if module.startswith(folder)), module)


class Scheduling(LoadScopeScheduling):
    """Gives all tests of a module to one process, and all of some folders, so that what they share starts once."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # as they are collected, see below
    return Scheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Two for each core: tests wait for processes and servers more than they compute."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_modifyitems(config, items):
    """In the processes that share the tests: the longest first, then the modules with most tests."""
    if hasattr(config, "workerinput"):
        sizes = Counter(_scope(item.nodeid) for item in items)
        items.sort(key=lambda item: (_rank(item.nodeid), -sizes[_scope(item.nodeid)]))


def _rank(nodeid: str) -> int:
    ranks = (number for number, path in enumerate(LONGEST) if nodeid.startswith(path))
    return next(ranks, len(LONGEST))


def pytest_collection_finish(session):
    """What has been collected stays to the end: it is not looked through for garbage again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def _homes(tmp_path_factory) -> Iterator[Path]:
    """For each test a folder of its own, which it makes if it needs it: most do not."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _no_other_fabric(monkeypatch, _homes):
    """No test finds the server or the files of whoever runs it."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    home = next(_homes)
    for kind in ("STATE", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))


@pytest.fixture(scope="session")
def server() -> Iterator[NatsServer]:
    """One server for all tests that do not break theirs."""
    server = NatsServer()
    asyncio.run(server.start())
    yield server
    asyncio.run(server.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def jetstream_server() -> Iterator[NatsServer]:
    """One server with JetStream for all tests that do not break theirs."""
    server = NatsServer(jetstream=True)
    asyncio.run(server.start())
    yield server
    asyncio.run(server.__aexit__(None, None, None))


@pytest.fixture
async def own_server() -> AsyncIterator[NatsServer]:
    """A server for one test, to be killed, frozen or wedged."""
    async with NatsServer() as server:
        yield server


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[Connection]:
    async with Connection(server.url) as connection:
        yield connection
