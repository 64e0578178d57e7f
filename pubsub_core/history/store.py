"""The history of a broker, in SQLite or PostgreSQL: events go in in batches and come out in pages.

One writer, any number of readers. Everything here blocks: a service calls it from threads.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Row,
    and_,
    create_engine,
    delete,
    event,
    false,
    func,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from authz.predicate import TRUE, Predicate, compile_predicate
from authz.predicate.compiler import EVENT
from pubsub_core.event import Event, decode, encode
from pubsub_core.history.condition import Compiler, store
from pubsub_core.history.errors import HistoryDamaged, HistoryUnavailable
from pubsub_core.history.keeping import Keeping, Search
from pubsub_core.history.tables import HEADS, VERSION, TypeTable, column_name, open_table, prepare
from pubsub_core.history.vault import START, Vault

PAGE = 512


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` up to but not including `end`, in Unix seconds."""

    start: float = float("-inf")
    end: float = float("inf")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come: everything at or before it has been seen."""

    time: float = float("-inf")
    row: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Events in order of time, and where the next page begins; None after the last."""

    events: Sequence[Event]
    after: Position | None


@dataclass(frozen=True, slots=True)
class Stats:
    """What is kept of one type."""

    events: int
    oldest: float | None
    newest: float | None


class HistoryStore:
    """Keeps events. Use as a context manager."""

    def __init__(self, url: str, vault: Vault) -> None:
        """`url` is SQLAlchemy's: `sqlite:///path`, or `postgresql+psycopg://host/name`. Raises HistoryUnavailable."""
        self.url = url
        self._vault = vault
        self._tables: dict[str, TypeTable] = {}
        self._heads: dict[str, bytes] = {}
        self._writing = threading.Lock()
        try:
            self._engine = _connect(url)
            with self._engine.begin() as connection:
                version = prepare(connection)
        except (SQLAlchemyError, OSError, ImportError) as error:
            raise HistoryUnavailable(_shown(url), str(error).partition("\n")[0]) from None
        if version > VERSION:
            self._engine.dispose()
            problem = f"it was made by a later version ({version}, here {VERSION})"
            raise HistoryUnavailable(_shown(url), problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.dispose()

    def keep(self, keeping: Keeping) -> None:
        """Be ready to store events of a type, by the attributes it is to be searched by."""
        with self._writing, self._engine.begin() as connection:
            self._tables[keeping.type] = open_table(connection, keeping)
            head = connection.execute(select(HEADS.c.head).filter_by(type=keeping.type)).scalar()
            if head is None:
                connection.execute(HEADS.insert().values(type=keeping.type, base=START, head=START))
            self._heads[keeping.type] = START if head is None else bytes(head)

    def append(self, type: str, events: Iterable[Event]) -> int:  # noqa: A002 - the word that people use
        """Store events, all or none; those that are there already are passed over. How many were new."""
        kept = self._tables[type]
        with self._writing, self._engine.begin() as connection:
            head, rows = self._heads[type], []
            for each in self._fresh(connection, kept, events):
                row, head = self._row(kept, each, head)
                rows.append(row)
            if rows:
                connection.execute(kept.table.insert(), rows)
                connection.execute(update(HEADS).filter_by(type=type).values(head=head))
        self._heads[type] = head
        return len(rows)

    def read(
        self,
        type: str,  # noqa: A002
        spans: Sequence[Span] = (Span(),),
        filter: Predicate = TRUE,  # noqa: A002
        after: Position | None = None,
        limit: int = PAGE,
    ) -> Page:
        """The next events that lie in a span and pass the filter. Raises HistoryDamaged.

        A page may hold fewer events than `limit`, even none, while there is a next.
        """
        kept, after = self._tables[type], after or Position()
        columns = kept.table.c
        query = select(columns.id, columns.time, columns.publisher, columns.sequence, columns.body)
        query = query.where(_within(columns.time, spans), _beyond(columns, after))
        query = query.where(self._compiler(kept).compile(filter).sql).order_by(columns.time, columns.id)
        with self._engine.connect() as connection:
            rows = connection.execute(query.limit(limit)).all()
        passes = compile_predicate(filter, EVENT)
        opened = (self._open(type, row) for row in rows)
        events = [each for each in opened if passes(each.attributes)]
        return Page(events, Position(rows[-1].time, rows[-1].id) if len(rows) == limit else None)

    def prune(self, type: str, before: float) -> int:  # noqa: A002
        """Forget events older than `before`; how many there were."""
        table = self._tables[type].table
        with self._writing, self._engine.begin() as connection:
            # The chain is by row, so only rows before the first that stays can go.
            stays = connection.execute(select(func.min(table.c.id)).where(table.c.time >= before)).scalar()
            gone = table.c.time < before if stays is None else table.c.id < stays
            last = connection.execute(
                select(table.c.link).where(gone).order_by(table.c.id.desc()).limit(1)
            ).scalar()
            if last is None:
                return 0
            connection.execute(update(HEADS).filter_by(type=type).values(base=bytes(last)))
            return int(connection.execute(delete(table).where(gone)).rowcount)

    def verify(self, type: str) -> Iterator[int]:  # noqa: A002
        """Follow the chain and open every event; yields how many were seen so far. Raises HistoryDamaged."""
        table = self._tables[type].table
        with self._engine.connect() as connection:
            heads = connection.execute(select(HEADS).filter_by(type=type)).one()
            link, row, seen = bytes(heads.base), 0, 0
            while rows := connection.execute(
                select(table).where(table.c.id > row).order_by(table.c.id).limit(PAGE)
            ).all():
                for each in rows:
                    self._open(type, each)
                    link = self._vault.link(link, bytes(each.body), _place(type, each))
                    if link != bytes(each.link):
                        raise HistoryDamaged(type, each.id)
                row, seen = rows[-1].id, seen + len(rows)
                yield seen
            if link != bytes(heads.head):
                raise HistoryDamaged(type, row + 1)

    def stats(self) -> Mapping[str, Stats]:
        """What is kept, by type."""
        with self._engine.connect() as connection:
            return {type_: self._stats(connection, kept) for type_, kept in self._tables.items()}

    def _stats(self, connection: Connection, kept: TypeTable) -> Stats:
        columns = kept.table.c
        count, oldest, newest = connection.execute(
            select(func.count(), func.min(columns.time), func.max(columns.time)).select_from(kept.table)
        ).one()
        return Stats(count, oldest, newest)

    def _compiler(self, kept: TypeTable) -> Compiler:
        return Compiler(kept.table.c.id, kept.indexed, self._vault.blind)

    def _fresh(self, connection: Connection, kept: TypeTable, events: Iterable[Event]) -> list[Event]:
        """Those that are not there yet."""
        columns = kept.table.c
        named = {(each.publisher, each.sequence, each.time): each for each in events}
        earliest = min((each.time for each in named.values()), default=0.0)
        found = connection.execute(
            select(columns.publisher, columns.sequence, columns.time).where(
                columns.time >= earliest, columns.publisher.in_({each.publisher for each in named.values()})
            )
        )
        for publisher, sequence, time in found:
            named.pop((bytes(publisher), sequence, time), None)
        return list(named.values())

    def _row(self, kept: TypeTable, each: Event, head: bytes) -> tuple[dict[str, object], bytes]:
        place = _place(kept.keeping.type, each)
        sealed = self._vault.seal(encode(each), place)
        link = self._vault.link(head, sealed, place)
        row: dict[str, object] = {
            "time": each.time,
            "publisher": each.publisher,
            "sequence": each.sequence,
            "body": sealed,
            "link": link,
        }
        for attribute, indexed in kept.indexed.items():
            value = each.attributes.get(attribute)
            if indexed.search is Search.CLEAR:
                shown = store(indexed.kind, value)
            else:
                shown = None if value is None else self._vault.blind(attribute, value)  # type: ignore[arg-type]
            row[column_name(attribute, indexed.search)] = shown
        return row, link

    def _open(self, type: str, row: Row[*tuple[Any, ...]]) -> Event:  # noqa: A002
        body = self._vault.open(bytes(row.body), _place(type, row))
        if body is None:
            raise HistoryDamaged(type, row.id)
        return decode(body)


def _connect(url: str) -> Engine:
    given = make_url(url)
    if given.get_backend_name() != "sqlite":
        return create_engine(given)
    if given.database:
        Path(given.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(given)

    @event.listens_for(engine, "connect")
    def _(connection: sqlite3.Connection, _: object) -> None:
        # Readers do not wait for the writer, and a crash of the machine loses at most the last moments.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine


def _shown(url: str) -> str:
    """The URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def _place(type: str, row: Event | Row[*tuple[Any, ...]]) -> bytes:  # noqa: A002
    """What a sealed event is bound to."""
    return _encode((type, bytes(row.publisher), row.time, row.sequence))


def _within(time: ColumnElement[float], spans: Sequence[Span]) -> ColumnElement[bool]:
    return or_(false(), *(and_(*_bounds(time, span)) for span in spans))


def _bounds(time: ColumnElement[float], span: Span) -> Iterator[ColumnElement[bool]]:
    yield true()
    if isfinite(span.start):
        yield time >= span.start
    if isfinite(span.end):
        yield time < span.end


def _beyond(columns: ReadOnlyColumnCollection[str, Column[object]], after: Position) -> ColumnElement[bool]:
    if not isfinite(after.time):
        return true()
    return or_(columns.time > after.time, and_(columns.time == after.time, columns.id > after.row))


_encode = msgspec.msgpack.Encoder().encode
