"""The history of a broker, in SQLite or PostgreSQL: events go in in batches and come out in pages.

One writer in each process, any number of readers; in PostgreSQL several brokers of a group may write. Everything here
blocks: a service calls it from threads.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self, TypeAlias, cast

import msgspec
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from authz.predicate import compile_predicate
from authz.predicate.compiler import EVENT
from pubsub_core.events import Event, decode
from pubsub_core.history.at_rest import Body, EventCipher, Link
from pubsub_core.history.chain_ends import Ends
from pubsub_core.history.condition import Compiler, store
from pubsub_core.history.database import Database, fetch, insert
from pubsub_core.history.errors import HistoryDamaged, HistoryUnavailable
from pubsub_core.history.position import Position
from pubsub_core.history.reading import Counted, Counting, Reading, beyond, counting, upcoming, within
from pubsub_core.history.retention import Keeping, Search
from pubsub_core.history.tables import (
    ABOUT,
    MARKS,
    VERSION,
    TypeTable,
    claim,
    column_name,
    known,
    open_table,
    prepare,
)

PAGE = 1024
EVENT_BYTES = 320
"""A page ends with the event that makes it larger than this for each that it could hold."""
_FIXED = ("time", "publisher", "sequence", "body", "link")
_LINK = _FIXED.index("link")
_MARK = b"mark"
_KEY = b"key"
_SEALED_ENDS = b"the ends of chains are sealed"

_log = logging.getLogger("authfabric.history")

_Row: TypeAlias = "tuple[int, float, bytes, int, bytes]"
_Test: TypeAlias = Callable[[Mapping[str, object]], bool]


@dataclass(frozen=True, slots=True)
class Page:
    """Events in order of time, as they were encoded, and where the next page begins; None after the last."""

    bodies: Sequence[bytes]
    after: Position | None
    damaged: Sequence[int] = ()
    """The rows of events that do not open."""
    loose: bool = False
    """Whether events may be among them that the filter does not let through."""

    @property
    def events(self) -> list[Event]:
        return list(map(decode, self.bodies))


@dataclass(frozen=True, slots=True)
class Stats:
    """What is kept of one type."""

    events: int
    oldest: float | None
    newest: float | None


class HistoryStore:
    """Keeps events. Use as a context manager."""

    def __init__(self, url: str, vault: EventCipher, broker: str = "") -> None:
        """`url` is SQLAlchemy's: `sqlite:///path`, or `postgresql+psycopg://host/name`. Raises HistoryUnavailable.

        `broker` is the one whose clients publish what is kept, or a group of brokers that share a history: it belongs
        to them for good.
        """
        self._vault = vault
        self._ends = Ends(vault)
        self._tables: dict[str, TypeTable] = {}
        self._writing = threading.Lock()
        self._database = Database(url)
        try:
            self._prepare(broker)
        except HistoryUnavailable:
            self._database.close()
            raise

    def _prepare(self, broker: str) -> None:
        with self._database.alone() as connection:
            version = prepare(connection)
            if version > VERSION:
                problem = f"it was made by a later version ({version}, here {VERSION})"
                raise HistoryUnavailable(self._database.name, problem)
            if broker and (owner := claim(connection, broker)) != broker:
                problem = (
                    f"it is that of `{owner}`: give each broker, or each group of brokers, one of its own"
                )
                raise HistoryUnavailable(self._database.name, problem)
            for keeping in known(connection):
                self._tables[keeping.type] = open_table(connection, keeping)
            if not self._is_own_key(connection):
                problem = "it is sealed by another key: bring back the one that it was made with"
                raise HistoryUnavailable(self._database.name, problem)

    def _is_own_key(self, connection: Connection) -> bool:
        """Whether the vault has the key of this database; of a new one it becomes the key."""
        check = connection.execute(select(ABOUT.c.key_check)).scalar()
        word = self._vault.open(bytes(check), _KEY) if check is not None else b""
        if word is None or (check is None and not self._opens_newest(connection)):
            return False
        if word != _SEALED_ENDS:  # by its sealed word, since whoever has the disk can alter its version
            if self._ends.seal_all(connection):
                _log.warning(
                    "the history at `%s` was of an older version, and is up to date now", self._database.name
                )
            connection.execute(update(ABOUT).values(key_check=self._vault.seal(_SEALED_ENDS, _KEY)))
        return True

    def _opens_newest(self, connection: Connection) -> bool:
        """Of a database from before keys were checked: whether something that was kept opens, if anything was."""
        kept = False
        for type_, each in self._tables.items():
            row = connection.execute(select(each.table).order_by(each.table.c.id.desc()).limit(1)).first()
            if row is not None:
                kept, place = True, _place(type_, row.publisher, row.time, row.sequence)
                if self._vault.open(bytes(row.body), place) is not None:
                    return True
        return not kept

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    @property
    def kept(self) -> Mapping[str, Keeping]:
        """What is kept, by type."""
        return {type_: each.keeping for type_, each in tuple(self._tables.items())}

    def keep(self, keeping: Keeping) -> None:
        """Be ready to store events of a type, by the attributes it is to be searched by."""
        with self._writing:
            with self._database.alone() as connection:
                table = open_table(connection, keeping)
                self._ends.begin(connection, keeping.type)
            self._tables[keeping.type] = table  # once it is committed: readers have connections of their own

    def append(self, events: Iterable[tuple[Event, Body]], marks: Sequence[bytes] = ()) -> int:
        """Store events with their bytes, all or none; those that are there already are passed over. How many were new.

        With them go marks, sealed. Raises HistoryUnavailable.
        """
        by_type = defaultdict[str, list[tuple[Event, Body]]](list)
        for each in events:
            by_type[each[0].type].append(each)
        with self._writing:
            try:
                return self._append(by_type, marks)
            except _Known:
                return self._append(by_type, marks, look=True)

    def _append(
        self, by_type: Mapping[str, list[tuple[Event, Body]]], marks: Sequence[bytes], look: bool = False
    ) -> int:
        new, sealed = 0, [{"body": self._vault.seal(each, _MARK)} for each in marks]
        with self._database.writing() as connection:
            if sealed:
                connection.execute(MARKS.insert(), sealed)
            for type_, events in sorted(by_type.items()):  # so that no two wait for each other
                kept, head = self._tables[type_], self._ends.head(connection, type_)
                fresh = _fresh(connection, kept, events) if look else events
                new += self._insert(connection, kept, fresh, look, head)
        return new

    def _insert(
        self,
        connection: Connection,
        kept: TypeTable,
        events: Sequence[tuple[Event, Body]],
        looked: bool,
        head: Link,
    ) -> int:
        if not events:
            return 0
        type_ = kept.keeping.type
        rows = self._rows(kept, events, head)
        columns = (*_FIXED, *(column_name(name, each.search) for name, each in kept.indexed.items()))
        try:
            insert(connection, kept.table, columns, rows)
        except IntegrityError:
            if looked:
                raise
            raise _Known from None
        self._ends.set_head(connection, type_, cast(Link, rows[-1][_LINK]))
        return len(rows)

    def _rows(
        self, kept: TypeTable, events: Sequence[tuple[Event, Body]], link: Link
    ) -> list[tuple[object, ...]]:
        """Events as they stand in the table, chained to the row that has this link."""
        type_, bodies = kept.keeping.type, [body for _, body in events]
        places = [_encode((type_, each.publisher, each.time, each.sequence)) for each, _ in events]
        chain = zip(events, self._vault.seal_chain(bodies, places, link), strict=True)
        rows: list[tuple[object, ...]] = [
            (each.time, each.publisher, each.sequence, *sealed) for (each, _), sealed in chain
        ]
        if kept.indexed:
            rows = [row + self._searched(kept, each) for row, (each, _) in zip(rows, events, strict=True)]
        return rows

    def _searched(self, kept: TypeTable, event: Event) -> tuple[object, ...]:
        """What the database is told of the attributes that events are searched by."""
        shown = []
        for attribute, indexed in kept.indexed.items():
            value = event.attributes.get(attribute)
            if value is not None and indexed.search is Search.BLIND:
                shown.append(self._vault.blind(attribute, value))  # type: ignore[arg-type]
            else:
                shown.append(store(indexed.kind, value))  # type: ignore[arg-type]
        return tuple(shown)

    def newest(self, type: str) -> int:  # noqa: A002 - the word that people use
        """The row of the event of a type that was stored last; 0 if there is none. Raises HistoryUnavailable."""
        kept = self._table(type)
        if kept is None:
            return 0
        with self._database.reading() as connection:
            return int(connection.execute(select(func.max(kept.table.c.id))).scalar() or 0)

    def _table(self, type_: str) -> TypeTable | None:
        """The table of a type; another broker that keeps its events here may have made it."""
        if type_ not in self._tables:
            with self._writing, self._database.alone() as connection:
                made = {each.type: each for each in known(connection)}.get(type_)
                table = open_table(connection, made) if made is not None else None
            if table is not None:
                self._tables[type_] = table
        return self._tables.get(type_)

    def read(
        self, reading: Reading, after: Position | None = None, limit: int = PAGE, exactly: bool = True
    ) -> Page:
        """The next events that are wanted. Raises HistoryUnavailable.

        A page may hold fewer events than `limit`, even none, while there is a next. Nothing is kept of a type that was
        never stored. Unless `exactly` these are asked for, a page may be loose.
        """
        kept = self._table(reading.type)
        if kept is None:
            return Page((), None)
        condition = Compiler(kept.table.c.id, kept.indexed, self._vault.blind).compile(reading.filter)
        spans, later = upcoming(reading.spans, after)
        reading, columns = replace(reading, spans=spans), kept.table.c
        query = select(columns.id, columns.time, columns.publisher, columns.sequence, columns.body)
        query = query.where(*within(columns, reading), *beyond(columns, after), condition.sql)
        with self._database.reading() as connection:
            rows = fetch(connection, query.order_by(columns.time, columns.id).limit(limit))
        loose = not exactly and not condition.exact
        passes = None if loose or condition.exact else compile_predicate(reading.filter, EVENT)
        page = self._page(reading.type, rows, limit, passes)
        return replace(page, after=page.after or later, loose=loose) if later or loose else page

    def count(self, wanted: Counting) -> Counted | None:
        """How many events there are, unopened; None if that cannot be told so. Raises HistoryUnavailable."""
        if (kept := self._table(wanted.type)) is None:
            return Counted(0, None, None)
        compiler = Compiler(kept.table.c.id, kept.indexed, self._vault.blind)
        query = counting(kept.table.c, compiler, wanted)
        if query is None:
            return None
        with self._database.reading() as connection:
            return Counted(*connection.execute(query).one())

    def _page(self, type_: str, rows: Sequence[_Row], limit: int, passes: _Test | None) -> Page:
        bodies, damaged, size, unseal, encode = list[bytes](), list[int](), 0, self._vault.open, _encode
        for row, time, publisher, sequence, sealed in rows:
            body = unseal(sealed, encode((type_, publisher, time, sequence)))
            if body is None:
                damaged.append(row)
            elif passes is None or passes(decode(body).attributes):
                bodies.append(body)
                size += len(body)
            if size > limit * EVENT_BYTES:
                return Page(bodies, Position(time, row), damaged)
        return Page(bodies, Position(time, row) if len(rows) == limit else None, damaged)

    def prune(self, type: str, before: float, most: int | None = None) -> int:  # noqa: A002
        """Forget events older than `before`, at most `most`; how many there were. Raises HistoryUnavailable."""
        table = self._tables[type].table
        with self._writing, self._database.writing() as connection:
            # The chain is by row, so only rows before the first that stays can go.
            stays = connection.execute(select(func.min(table.c.id)).where(table.c.time >= before)).scalar()
            gone = table.c.time < before if stays is None else table.c.id < stays
            ends = select(table.c.id, table.c.link).where(gone).limit(1)
            last = connection.execute(ends.order_by(table.c.id).offset(most - 1)).first() if most else None
            last = last or connection.execute(ends.order_by(table.c.id.desc())).first()
            return 0 if last is None else self._forget(connection, type, last.id, bytes(last.link))

    def _forget(self, connection: Connection, type_: str, last: int, link: bytes) -> int:
        table = self._tables[type_].table
        self._ends.set_base(connection, type_, link)
        return int(connection.execute(delete(table).where(table.c.id <= last)).rowcount)

    def verify(self, type: str) -> Iterator[int]:  # noqa: A002
        """Follow the chain and open every event; yields how many were seen so far. Raises HistoryDamaged."""
        table = self._tables[type].table
        with self._database.reading() as connection:
            (link, head), row, seen = self._ends.both(connection, type), 0, 0
            while rows := connection.execute(
                select(table).where(table.c.id > row).order_by(table.c.id).limit(PAGE)
            ).all():
                for each in rows:
                    place = _place(type, each.publisher, each.time, each.sequence)
                    link = self._vault.link(link, bytes(each.body), place)
                    if link != bytes(each.link) or self._vault.open(bytes(each.body), place) is None:
                        raise HistoryDamaged(type, each.id)
                row, seen = rows[-1].id, seen + len(rows)
                yield seen
            if link != head:
                raise HistoryDamaged(type, row + 1)

    def stats(self) -> Mapping[str, Stats]:
        """What is kept, by type. Raises HistoryUnavailable."""
        with self._database.reading() as connection:
            return {type_: _stats(connection, kept) for type_, kept in self._tables.items()}

    def marks(self) -> list[tuple[int, bytes]]:
        """All marks, in the order in which they were stored; those that do not open are left out."""
        with self._database.reading() as connection:
            rows = connection.execute(select(MARKS.c.id, MARKS.c.body).order_by(MARKS.c.id)).all()
        opened = ((row, self._vault.open(bytes(body), _MARK)) for row, body in rows)
        return [(row, body) for row, body in opened if body is not None]

    def forget_marks(self, rows: Sequence[int]) -> int:
        """Forget these marks; how many there were. Raises HistoryUnavailable."""
        gone = 0
        with self._writing, self._database.writing() as connection:
            for start in range(0, len(rows), PAGE):
                some = delete(MARKS).where(MARKS.c.id.in_(rows[start : start + PAGE]))
                gone += connection.execute(some).rowcount
        return gone


class _Known(Exception):
    """Some of the events are there already."""


def _stats(connection: Connection, kept: TypeTable) -> Stats:
    columns = kept.table.c
    count, oldest, newest = connection.execute(
        select(func.count(), func.min(columns.time), func.max(columns.time)).select_from(kept.table)
    ).one()
    return Stats(count, oldest, newest)


def _fresh(
    connection: Connection, kept: TypeTable, events: Sequence[tuple[Event, Body]]
) -> list[tuple[Event, Body]]:
    """Those that are not there yet, each once."""
    columns = kept.table.c
    named = {(each.publisher, each.sequence, each.time): (each, body) for each, body in events}
    for publisher in {each.publisher for each, _ in events}:
        numbers = [each.sequence for each, _ in events if each.publisher == publisher]
        found = connection.execute(
            select(columns.sequence, columns.time).where(
                columns.publisher == publisher, columns.sequence.in_(numbers)
            )
        )
        for sequence, time in found:
            named.pop((publisher, sequence, time), None)
    return list(named.values())


def _place(type: str, publisher: bytes, time: float, sequence: int) -> bytes:  # noqa: A002
    """What a sealed event is bound to."""
    return _encode((type, bytes(publisher), time, sequence))


_encode = msgspec.msgpack.Encoder().encode
