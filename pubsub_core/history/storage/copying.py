"""A history taken out of its database whole, sealed as it stands there, and put into another that is empty.

Pages of rows travel, not files: so a history may go from SQLite to PostgreSQL and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from sqlalchemy import Connection, Table, func, select

from pubsub_core.history.errors import HistoryUnavailable
from pubsub_core.history.storage import tables
from pubsub_core.history.storage.database import Database, hold_still

ROWS = 256
"""Maximum rows of a page."""
_COMMON = (tables.ABOUT, tables.TYPES, tables.MARKS, tables.COLUMNS, tables.HEADS, tables.SEAMS)


class HistoryPage(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one table."""

    table: str
    columns: tuple[str, ...]
    rows: list[list[msgspec.Raw]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode


def read_history(url: str) -> Iterator[HistoryPage]:
    """All of a history, as it was at one moment. Raises HistoryUnavailable."""
    database = Database(url)
    try:
        with database.reading() as connection:
            hold_still(connection)
            version = tables.prepared(connection)
            if version != tables.VERSION:
                found = "none" if version is None else f"version {version}"
                raise HistoryUnavailable(
                    database.name, f"holds {found}: have a broker of this version open it first"
                )
            kept = [tables.table_of(connection, each) for each in tables.known(connection)]
            for table in (*_COMMON, *kept):
                yield from _pages(connection, table)
    finally:
        database.close()


def write_history(url: str, pages: Iterable[HistoryPage]) -> int:
    """Put a history into a database that holds none; returns how many rows. Raises HistoryUnavailable."""
    database, written = Database(url), 0
    try:
        with database.alone() as connection:
            tables.prepare(connection)
            if any(
                connection.execute(select(func.count()).select_from(each)).scalar() for each in _COMMON[1:]
            ):
                raise HistoryUnavailable(database.name, "holds a history already: name an empty database")
            connection.execute(tables.ABOUT.delete())
            known = {table.name: table for table in _COMMON}
            for page in pages:
                if page.table not in known:  # all that types have in common has come before
                    known |= _made(connection)
                table = known.get(page.table)
                if table is None:
                    raise HistoryUnavailable(database.name, f"`{page.table}` is no table of a history")
                _insert(connection, table, page)
                written += len(page.rows)
            for table in known.values():
                _count_on(connection, table)
    finally:
        database.close()
    return written


def _pages(connection: Connection, table: Table) -> Iterator[HistoryPage]:
    columns = tuple(column.name for column in table.columns)
    found = connection.execution_options(yield_per=ROWS).execute(select(table))
    for rows in found.partitions(ROWS):
        yield HistoryPage(
            table.name, columns, [[msgspec.Raw(_encode(_plain(value))) for value in row] for row in rows]
        )


def _insert(connection: Connection, table: Table, page: HistoryPage) -> None:
    there = {column.name for column in table.columns}
    rows = [
        {name: _decode(value) for name, value in zip(page.columns, row, strict=True) if name in there}
        for row in page.rows
    ]
    if rows:
        connection.execute(table.insert(), rows)


def _made(connection: Connection) -> dict[str, Table]:
    """The tables of all types that are said to be kept, made."""
    made = [tables.table_of(connection, each) for each in tables.known(connection)]
    for table in made:
        table.create(connection, checkfirst=True)
    return {table.name: table for table in made}


def _count_on(connection: Connection, table: Table) -> None:
    """Have the next row numbered after the last; SQLite does so by itself."""
    if connection.dialect.name == "postgresql" and "id" in table.columns:
        last = select(func.max(table.c.id)).scalar_subquery()
        number = func.pg_get_serial_sequence(table.name, "id")
        connection.execute(select(func.setval(number, func.coalesce(last, 1))))


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value
