"""The database behind a history: how it is opened, named to people, and written to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeVarTuple

from sqlalchemy import Connection, Engine, Select, Table, create_engine, event, func, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from pubsub_core.history.errors import HistoryUnavailable

Columns = TypeVarTuple("Columns")

BUSY_SECONDS = 10
"""How long a writer waits for another, such as a command that prunes."""
VALUES_AT_ONCE = 1_000
"""Maximum values in one statement."""
CHECKPOINT_PAGES = 16_000
"""Changed SQLite pages in the write-ahead log before a checkpoint: by then most have changed again."""
MAPPED_BYTES = 1 << 30
"""Bytes of an SQLite database that are mapped into memory; the rest is read as files are."""

ALONE = 0x61757468
"""The lock that brokers with one database take in PostgreSQL while they make tables."""


class Database:
    """An engine whose failures are the history's own."""

    def __init__(self, url: str) -> None:
        """Raises HistoryUnavailable."""
        self.name = _shown(url)
        with self._errors():
            self._engine = _connect(url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Raises HistoryUnavailable."""
        with self._errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all of it or nothing. Raises HistoryUnavailable."""
        with self._errors(), self._engine.begin() as connection:
            if connection.dialect.name == "sqlite":
                # From the start: whoever begins as a reader cannot always become a writer.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """The same, for what nobody else may do at the time: to make tables, or to alter them."""
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(ALONE)))
            yield connection

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except NoSuchModuleError as error:
            problem = "it must be `default`, sqlite:///FILE or postgresql://HOST/NAME"
            raise HistoryUnavailable(self.name, problem) from error
        except (SQLAlchemyError, OSError, ImportError) as error:
            raise HistoryUnavailable(self.name, str(error).partition("\n")[0]) from error


def hold_still(connection: Connection) -> None:
    """See what there is at this moment, whatever is written meanwhile."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN")
    else:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


def fetch(connection: Connection, query: Select[*Columns]) -> list[tuple[*Columns]]:
    """All rows of a query, as the driver itself gives them."""
    cursor = connection.execute(query).cursor
    assert cursor is not None
    return list(cursor.fetchall())


def insert(
    connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]
) -> None:
    """Put rows in by the thousand, as the driver itself takes them.

    Many go into one statement: between two statements SQLite's driver lets other threads of the process go first.
    """
    most = max(1, VALUES_AT_ONCE // len(columns))
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        statement = _insertion(connection.dialect.paramstyle, table.name, columns, len(some))
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(some)))


@lru_cache(256)
def _insertion(style: str, table: str, columns: tuple[str, ...], count: int) -> str:
    marks = ", ".join(["?" if style == "qmark" else "%s"] * len(columns))
    rows = ", ".join([f"({marks})"] * count)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {rows}"  # noqa: S608 - names are ours


def _connect(url: str) -> Engine:
    given = make_url(url)
    if given.get_backend_name() != "sqlite":
        return create_engine(given, pool_pre_ping=True)
    if given.database:
        Path(given.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = create_engine(given, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        # Readers do not wait for the writer; what was committed is on the disk.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        # What is found by an index lies scattered: a page that is mapped is not copied for the sake of one row.
        connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")

    return engine


def _shown(url: str) -> str:
    """The URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url
