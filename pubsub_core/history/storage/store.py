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
from typing import Self, TypeAlias, TypeVar, cast

import msgspec
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from authz.predicate import compile_predicate
from authz.predicate.compiler import EVENT
from pubsub_core.events import Event, decode
from pubsub_core.history.at_rest import Body, EventCipher, Link
from pubsub_core.history.errors import HistoryUnavailable
from pubsub_core.history.history_keys import HistoryKeys
from pubsub_core.history.position import Position
from pubsub_core.history.retention import Keeping
from pubsub_core.history.storage.chain_ends import KEY, SEALED_ENDS, Ends
from pubsub_core.history.storage.condition import Compiler, Condition
from pubsub_core.history.storage.database import Database, fetch, hold_still, insert
from pubsub_core.history.storage.reading import Counted, Counting, Reading, beyond, counting, upcoming, within
from pubsub_core.history.storage.rekeying import MARK, Rekeying, follow
from pubsub_core.history.storage.sealed_rows import LINK, columns_of, place_of, rows_of
from pubsub_core.history.storage.tables import (
    ABOUT,
    MARKS,
    VERSION,
    TypeTable,
    claim,
    known,
    open_table,
    prepare,
)

PAGE = 1024
EVENT_BYTES = 320
"""A page ends with the event that makes it larger than this for each that it could hold."""

_log = logging.getLogger("authfabric.history")

_Row: TypeAlias = "tuple[int, float, bytes, int, bytes]"
_Found = TypeVar("_Found")
_Test: TypeAlias = Callable[[Mapping[str, object]], bool]


@dataclass(frozen=True, slots=True)
class Page:
    """Events in order of time, as they were encoded, and where the next page begins; None after the last."""

    bodies: Sequence[bytes]
    after: Position | None
    damaged: Sequence[int] = ()
    """The rows of events that do not open."""

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

    def __init__(self, url: str, vault: HistoryKeys | EventCipher, broker: str = "") -> None:
        """`url` is SQLAlchemy's: `sqlite:///path`, or `postgresql+psycopg://host/name`. Raises HistoryUnavailable.

        `broker` is the one whose clients publish what is kept, or a group of brokers that share a history: it belongs
        to them for good.
        """
        self._vault = vault if isinstance(vault, HistoryKeys) else HistoryKeys(vault)
        self._ends = Ends(self._vault)
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
        word = self._vault.open(bytes(check), KEY) if check is not None else b""
        if word is None or (check is None and not self._opens_newest(connection)):
            return False
        if word != SEALED_ENDS:  # by its sealed word, since whoever has the disk can alter its version
            if self._ends.seal_all(connection):
                _log.warning(
                    "the history at `%s` was of an older version, and is up to date now", self._database.name
                )
            sealed = self._vault.newest.seal(SEALED_ENDS, KEY)
            connection.execute(update(ABOUT).values(key_check=sealed))
        return True

    def _opens_newest(self, connection: Connection) -> bool:
        """Of a database from before keys were checked: whether something that was kept opens, if anything was."""
        kept = False
        for type_, each in self._tables.items():
            row = connection.execute(select(each.table).order_by(each.table.c.id.desc()).limit(1)).first()
            if row is not None:
                kept, place = True, place_of(type_, row.publisher, row.time, row.sequence)
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
        new = 0
        with self._database.writing() as connection:
            if marks:
                cipher = self._ends.cipher(connection)
                connection.execute(MARKS.insert(), [{"body": cipher.seal(each, MARK)} for each in marks])
            for type_, events in sorted(by_type.items()):  # so that no two wait for each other
                kept, (cipher, head) = self._tables[type_], self._ends.head(connection, type_)
                fresh = _fresh(connection, kept, events) if look else events
                new += self._insert(connection, kept, fresh, look, cipher, head)
        return new

    def _insert(
        self,
        connection: Connection,
        kept: TypeTable,
        events: Sequence[tuple[Event, Body]],
        looked: bool,
        cipher: EventCipher,
        head: Link,
    ) -> int:
        if not events:
            return 0
        rows = rows_of(kept, events, cipher, head)
        try:
            insert(connection, kept.table, columns_of(kept), rows)
        except IntegrityError:
            if looked:
                raise
            raise _Known from None
        self._ends.set_head(connection, kept.keeping.type, cast(Link, rows[-1][LINK]), cipher)
        return len(rows)

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
        never stored. Unless `exactly` these are asked for, others may be there that the filter does not let through.
        """
        kept = self._table(reading.type)
        if kept is None:
            return Page((), None)
        spans, later = upcoming(reading.spans, after)
        reading, columns = replace(reading, spans=spans), kept.table.c
        query = select(columns.id, columns.time, columns.publisher, columns.sequence, columns.body)
        query = query.where(*within(columns, reading), *beyond(columns, after))
        query = query.order_by(columns.time, columns.id).limit(limit)

        def found(connection: Connection) -> tuple[Condition, list[_Row]]:
            condition = Compiler(columns.id, kept.indexed, self._vault.blinds).compile(reading.filter)
            return condition, fetch(connection, query.where(condition.sql))

        condition, rows = self._with_all_keys(reading.type, found)
        passes = compile_predicate(reading.filter, EVENT) if exactly and not condition.exact else None
        page = self._page(reading.type, rows, limit, passes)
        return replace(page, after=page.after or later) if later else page

    def count(self, wanted: Counting) -> Counted | None:
        """How many events there are, unopened; None if that cannot be told so. Raises HistoryUnavailable."""
        if (kept := self._table(wanted.type)) is None:
            return Counted(0, None, None)

        def found(connection: Connection) -> Counted | None:
            compiler = Compiler(kept.table.c.id, kept.indexed, self._vault.blinds)
            query = counting(kept.table.c, compiler, wanted)
            return None if query is None else Counted(*connection.execute(query).one())

        return self._with_all_keys(wanted.type, found)

    def _with_all_keys(self, type_: str, find: Callable[[Connection], _Found]) -> _Found:
        """What is found by all keys by which events of a type were sealed: there may be another since a moment ago."""
        with self._database.reading() as connection:
            found = find(connection)
            # Asked afterwards: who seals by another key says so first.
            if self._ends.opens(connection, type_):
                return found
        if self._vault.look():
            return self._with_all_keys(type_, find)
        raise HistoryUnavailable(self._database.name, "it is sealed by another key, which is not here yet")

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
        """Forget events older than `before`, at most `most`; how many there were.

        Raises HistoryUnavailable, HistoryDamaged.
        """
        table = self._tables[type].table
        with self._writing, self._database.writing() as connection:
            cipher = self._ends.hold(connection, type)
            # The chain is by row, so only rows before the first that stays can go.
            stays = connection.execute(select(func.min(table.c.id)).where(table.c.time >= before)).scalar()
            gone = table.c.time < before if stays is None else table.c.id < stays
            ends = select(table.c.id, table.c.link).where(gone).limit(1)
            last = connection.execute(ends.order_by(table.c.id).offset(most - 1)).first() if most else None
            last = last or connection.execute(ends.order_by(table.c.id.desc())).first()
            if last is None:
                return 0
            seam = self._ends.seam(connection, type)
            link = seam.before if seam is not None and seam.row == last.id else bytes(last.link)
            self._ends.set_base(connection, type, link, cipher)
            return int(connection.execute(delete(table).where(table.c.id <= last.id)).rowcount)

    def verify(self, type: str) -> Iterator[int]:  # noqa: A002
        """Follow the chain and open every event; yields how many were seen so far. Raises HistoryDamaged."""
        with self._database.reading() as connection:
            hold_still(connection)
            yield from follow(connection, self._vault, self._ends, self._tables[type])

    def rekey(self) -> Iterator[int]:
        """Seal everything by the newest key of the vault; yields how many events were by now.

        Others may write and read meanwhile. What was broken off goes on. Raises HistoryDamaged, HistoryUnavailable.
        """
        yield from Rekeying(self._database, self._vault, self._ends).run()

    def stats(self) -> Mapping[str, Stats]:
        """What is kept, by type. Raises HistoryUnavailable."""
        with self._database.reading() as connection:
            return {type_: _stats(connection, kept) for type_, kept in self._tables.items()}

    def marks(self) -> list[tuple[int, bytes]]:
        """All marks, in the order in which they were stored; those that do not open are left out."""
        with self._database.reading() as connection:
            rows = connection.execute(select(MARKS.c.id, MARKS.c.body).order_by(MARKS.c.id)).all()
        opened = [(row, self._vault.open(bytes(body), MARK)) for row, body in rows]
        if any(body is None for _, body in opened) and self._vault.look():
            return self.marks()
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


_encode = msgspec.msgpack.Encoder().encode
