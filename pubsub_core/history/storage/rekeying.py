"""A history sealed anew, by the newest of its keys: page by page, while brokers write to it and others read it.

First the ends of all chains are sealed by the new key, in one transaction: from then on nothing is sealed by one of
before. Then each chain is followed from its oldest row, and each page is sealed and linked anew in one transaction,
with the seam: how far this has come, and the link that the next row still follows from. So it can be broken off and
goes on there. Invariant: a row that was altered, taken out or put in is found before it is sealed anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from sqlalchemy import Connection, bindparam, delete, select, text, update

from pubsub_core.events import decode
from pubsub_core.history.at_rest import EventCipher, Link
from pubsub_core.history.errors import HistoryDamaged
from pubsub_core.history.history_keys import HistoryKeys
from pubsub_core.history.retention import Search
from pubsub_core.history.storage.chain_ends import Ends, Seam
from pubsub_core.history.storage.database import Database
from pubsub_core.history.storage.sealed_rows import LINK, Kept, Row, columns_of, place_of, rows_of
from pubsub_core.history.storage.tables import (
    COLUMNS,
    MARKS,
    SEAMS,
    SILENT,
    TypeTable,
    column_name,
    known,
    open_table,
)

PAGE = 1024
MARK = b"mark"


def follow(
    connection: Connection, vault: HistoryKeys, ends: Ends, kept: TypeTable, page: int = PAGE
) -> Iterator[int]:
    """Follow a chain and open every event; yields how many were seen so far. Raises HistoryDamaged."""
    type_, table = kept.keeping.type, kept.table
    (link, head), seam, row, seen = ends.both(connection, type_), ends.seam(connection, type_), 0, 0
    while rows := connection.execute(
        select(table).where(table.c.id > row).order_by(table.c.id).limit(page)
    ).all():
        for each in rows:
            place = place_of(type_, each.publisher, each.time, each.sequence)
            found = vault.opened(bytes(each.body), place)
            if found is None or found[0].link(link, bytes(each.body), place) != bytes(each.link):
                raise HistoryDamaged(type_, each.id)
            link = seam.before if seam is not None and each.id == seam.row else bytes(each.link)
        row, seen = rows[-1].id, seen + len(rows)
        yield seen
    if link != head:
        raise HistoryDamaged(type_, row + 1)


class Rekeying:
    """One history on its way to the newest key that its vault has."""

    def __init__(self, database: Database, vault: HistoryKeys, ends: Ends) -> None:
        self._database = database
        self._vault = vault
        self._ends = ends

    def run(self) -> Iterator[int]:
        """Seal all of it anew; yields how many events were by now. Raises HistoryDamaged, HistoryUnavailable."""
        cipher, done = self._vault.newest, 0
        with self._database.alone() as connection:
            self._ends.use(connection, cipher)
            tables = [open_table(connection, each) for each in known(connection)]
        for each in tables:
            self._empty_silent(each)
            while count := self._seal_page(each, cipher):
                done += count
                yield done
        self._seal_marks(cipher)
        with self._database.writing() as connection:
            connection.execute(delete(SEAMS))

    def _seal_page(self, kept: TypeTable, cipher: EventCipher) -> int:
        """Seal the next rows anew; how many there were."""
        type_, table = kept.keeping.type, kept.table
        with self._database.writing() as connection:
            base, head = self._ends.both(connection, type_, writing=True)
            seam = self._ends.seam(connection, type_)
            row = seam.row if seam is not None else 0
            newest = select(table.c.link).where(table.c.id <= row).order_by(table.c.id.desc()).limit(1)
            link = connection.execute(newest).scalar()
            # Rows before the seam may be forgotten by now, and some behind it: then the base says what comes before.
            new, old = (bytes(link), seam.before) if link is not None and seam is not None else (base, base)
            rows = connection.execute(
                select(table).where(table.c.id > row).order_by(table.c.id).limit(PAGE)
            ).all()
            events = list[Kept]()
            for each in rows:
                place = place_of(type_, each.publisher, each.time, each.sequence)
                found = self._vault.opened(bytes(each.body), place)
                if found is None or found[0].link(old, bytes(each.body), place) != bytes(each.link):
                    raise HistoryDamaged(type_, each.id)
                old = bytes(each.link)
                events.append((decode(found[1]), found[1]))
            last = len(rows) < PAGE
            if last and old != head:
                raise HistoryDamaged(type_, (rows[-1].id if rows else row) + 1)
            if rows:
                sealed = rows_of(kept, events, cipher, new)
                _replace(connection, kept, [each.id for each in rows], sealed)
                row, new = rows[-1].id, cast(Link, sealed[-1][LINK])
            if last:
                self._ends.set_head(connection, type_, new, cipher)
                old = new
            self._ends.set_seam(connection, type_, Seam(row, old), cipher)
        return 0 if last and not rows else len(rows)

    def _empty_silent(self, kept: TypeTable) -> None:
        """Take out what stands in columns that nothing is searched by any more: it is of keys of before."""
        with self._database.writing() as connection:
            silent = select(COLUMNS.c.attribute).filter_by(
                type=kept.keeping.type, search=Search.BLIND.value, since=SILENT
            )
            for (attribute,) in connection.execute(silent).all():
                name = column_name(attribute, Search.BLIND)
                connection.execute(text(f"UPDATE {kept.table.name} SET {name} = NULL"))  # noqa: S608 - names are ours

    def _seal_marks(self, cipher: EventCipher) -> None:
        row = 0
        while True:
            with self._database.writing() as connection:
                query = select(MARKS.c.id, MARKS.c.body).where(MARKS.c.id > row).order_by(MARKS.c.id)
                rows = connection.execute(query.limit(PAGE)).all()
                for each in rows:
                    body = self._vault.open(bytes(each.body), MARK)
                    if body is not None:
                        sealed = cipher.seal(body, MARK)
                        connection.execute(update(MARKS).where(MARKS.c.id == each.id).values(body=sealed))
            if not rows:
                return
            row = rows[-1].id


def _replace(connection: Connection, kept: TypeTable, ids: list[int], rows: list[Row]) -> None:
    """Put rows in the places of those that have these numbers."""
    names, table = columns_of(kept), kept.table
    statement = update(table).where(table.c.id == bindparam("row_id"))
    statement = statement.values({name: bindparam(f"new_{name}") for name in names})
    values = (dict(zip((f"new_{name}" for name in names), row, strict=True)) for row in rows)
    connection.execute(statement, [{"row_id": id_, **each} for id_, each in zip(ids, values, strict=True)])
