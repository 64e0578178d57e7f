"""Where events stand in the database: a table for each type, with a column for each attribute it is searched by.

Columns are added when a type begins to be searched by another attribute. Rows that were there before have nothing in
them, which is why each column knows since which row it speaks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    delete,
    func,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.schema import CreateColumn, CreateIndex
from sqlalchemy.types import TypeEngine

from pubsub_core.history.retention import Keeping, Search
from pubsub_core.history.storage.condition import Indexed
from pubsub_core.types import AttributeType

VERSION = 5
"""Of what all tables have in common. An older database is brought up to it; a later one is refused."""

SILENT = -1
"""In place of the first row of a column that is no longer filled."""

_CLEAR: Mapping[AttributeType, type[TypeEngine[Any]]] = {
    AttributeType.STRING: LargeBinary,
    AttributeType.INTEGER: BigInteger,
    AttributeType.FLOAT: Double,
    AttributeType.TIMESTAMP: Double,
    AttributeType.BOOLEAN: Boolean,
}

_metadata = MetaData()
ABOUT = Table(
    "history_about",
    _metadata,
    Column("version", Integer, nullable=False),
    Column("broker", String(256), nullable=False, server_default=""),
    Column("key_check", LargeBinary),
)
"""The broker is the one whose clients published what is kept: no other answers for it. What is in `key_check` opens by
the key by which everything else does."""
TYPES = Table(
    "history_types",
    _metadata,
    Column("type", String(32), primary_key=True),
    Column("keeping", LargeBinary, nullable=False),
)
"""What is kept of each type, as it was last said."""
MARKS = Table(
    "history_marks",
    _metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("body", LargeBinary, nullable=False),
)
"""When fluents began and ended, each sealed."""
COLUMNS = Table(
    "history_columns",
    _metadata,
    Column("type", String(32), primary_key=True),
    Column("attribute", String(32), primary_key=True),
    Column("search", String(8), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("since", BigInteger, nullable=False),
)
HEADS = Table(
    "history_heads",
    _metadata,
    Column("type", String(32), primary_key=True),
    Column("base", LargeBinary, nullable=False),
    Column("head", LargeBinary, nullable=False),
)
"""The links before the oldest row that is kept and of the newest, sealed."""
SEAMS = Table(
    "history_seams",
    _metadata,
    Column("type", String(32), primary_key=True),
    Column("row", BigInteger, nullable=False),
    Column("link", LargeBinary, nullable=False),
)
"""While another key takes over: to which row it has, and the link that this row had before, sealed."""


@dataclass(frozen=True, slots=True)
class TypeTable:
    """The table of one type, and what it can be searched by."""

    keeping: Keeping
    table: Table
    indexed: Mapping[str, Indexed]


def prepare(connection: Connection) -> int:
    """Make what all types share, or bring it up to date; the version that it has then."""
    there = inspect(connection).has_table(ABOUT.name)
    found = connection.execute(select(ABOUT.c.version)).scalar() if there else None
    if found is not None and found > VERSION:
        return int(found)
    for since, column in ((2, ABOUT.c.broker), (3, ABOUT.c.key_check)):
        if found is not None and found < since:
            _widen(connection, ABOUT, column)
    _metadata.create_all(connection)
    if found is None:
        connection.execute(ABOUT.insert().values(version=VERSION))
    elif found < VERSION:
        connection.execute(update(ABOUT).values(version=VERSION))
    return VERSION


def prepared(connection: Connection) -> int | None:
    """The version of what all types share; None if nothing is there."""
    if not inspect(connection).has_table(ABOUT.name):
        return None
    found = connection.execute(select(ABOUT.c.version)).scalar()
    return None if found is None else int(found)


def table_of(connection: Connection, keeping: Keeping) -> Table:
    """The table of a type as it is known, not made."""
    return _table(keeping, _searchable(connection, keeping))


def claim(connection: Connection, broker: str) -> str:
    """Make the database this broker's, if it is nobody's yet; whose it is."""
    owner = str(connection.execute(select(ABOUT.c.broker)).scalar() or "")
    if not owner:
        connection.execute(update(ABOUT).values(broker=broker))
    return owner or broker


def open_table(connection: Connection, keeping: Keeping) -> TypeTable:
    """The table of a type, made or widened as need be."""
    searched = _searchable(connection, keeping)
    table = _table(keeping, searched)
    table.create(connection, checkfirst=True)
    _say(connection, keeping)
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for attribute, search in searched.items():
        if column_name(attribute, search) not in there:
            _widen(connection, table, table.c[column_name(attribute, search)])
    since = _speaking(connection, keeping, table, searched)
    indexed = {
        attribute: Indexed(
            table.c[column_name(attribute, search)], search, keeping.kinds[attribute], since[attribute]
        )
        for attribute, search in searched.items()
    }
    return TypeTable(keeping, table, indexed)


def _searchable(connection: Connection, keeping: Keeping) -> dict[str, Search]:
    """What the type can be searched by: not by columns that were made for values of another kind."""
    rows = connection.execute(select(COLUMNS).where(COLUMNS.c.type == keeping.type))
    kinds = {(row.attribute, row.search): row.kind for row in rows}
    return {
        attribute: search
        for attribute, search in keeping.searched.items()
        if kinds.get((attribute, search.value), keeping.kinds[attribute].value)
        == keeping.kinds[attribute].value
    }


def _speaking(
    connection: Connection, keeping: Keeping, table: Table, searched: Mapping[str, Search]
) -> dict[str, int]:
    """Since which row each column has values. Those that get none from now on have to begin anew."""
    rows = connection.execute(select(COLUMNS).where(COLUMNS.c.type == keeping.type)).all()
    since = {(row.attribute, row.search): int(row.since) for row in rows}
    own = update(COLUMNS).where(COLUMNS.c.type == keeping.type)
    for attribute, search in since:
        if searched.get(attribute) != search:
            connection.execute(own.filter_by(attribute=attribute, search=search).values(since=SILENT))
    newest = connection.execute(select(func.max(table.c.id))).scalar()
    start = 0 if newest is None else int(newest) + 1
    for attribute, search in searched.items():
        key = {"attribute": attribute, "search": search.value}
        known = since.get((attribute, search.value))
        if known is None:
            kind = keeping.kinds[attribute].value
            connection.execute(COLUMNS.insert().values(type=keeping.type, **key, kind=kind, since=start))
        elif known == SILENT:
            connection.execute(own.filter_by(**key).values(since=start))
    return {
        attribute: start if (known := since.get((attribute, search.value), SILENT)) == SILENT else known
        for attribute, search in searched.items()
    }


def column_name(attribute: str, search: Search) -> str:
    return f"{search}_{attribute}"


def _table(keeping: Keeping, searched: Mapping[str, Search]) -> Table:
    name = f"events_{keeping.type}"
    columns: list[Column[object]] = []
    for attribute, search in searched.items():
        kind = LargeBinary if search is Search.BLIND else _CLEAR[keeping.kinds[attribute]]
        columns.append(Column(column_name(attribute, search), kind))
    table = Table(
        name,
        MetaData(),
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("time", Double, nullable=False),
        Column("publisher", LargeBinary, nullable=False),
        Column("sequence", BigInteger, nullable=False),
        Column("body", LargeBinary, nullable=False),
        Column("link", LargeBinary, nullable=False),
        *columns,
        UniqueConstraint("time", "sequence", "publisher"),  # by which they are also read in order of time
        sqlite_autoincrement=True,
    )
    for column in columns:
        Index(_index_name(name, column.name), column, "time")
    return table


def _index_name(table: str, column: str) -> str:
    """Short, since databases cut names off; and of its own, since they share one space for them."""
    return f"ix_{hashlib.blake2b(f'{table}.{column}'.encode(), digest_size=16).hexdigest()}"


def _widen(connection: Connection, table: Table, column: Column[object]) -> None:
    definition = CreateColumn(column).compile(dialect=connection.dialect)
    connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
    for index in table.indexes:
        if column.name in index.columns:
            connection.execute(CreateIndex(index))


def known(connection: Connection) -> list[Keeping]:
    """All types that are kept, as was last said; of a database that did not note it, what its columns tell."""
    said = {row.type: _decode(bytes(row.keeping)) for row in connection.execute(select(TYPES))}
    for (type_,) in connection.execute(select(HEADS.c.type)):
        if type_ not in said:
            rows = connection.execute(select(COLUMNS).where(COLUMNS.c.type == type_)).all()
            said[type_] = Keeping(
                type_,
                {row.attribute: AttributeType(row.kind) for row in rows},
                {row.attribute: Search(row.search) for row in rows},
            )
    return list(said.values())


def _say(connection: Connection, keeping: Keeping) -> None:
    connection.execute(delete(TYPES).where(TYPES.c.type == keeping.type))
    connection.execute(TYPES.insert().values(type=keeping.type, keeping=_encode(keeping)))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Keeping).decode
