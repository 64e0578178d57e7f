"""The ends of the chains in which events are kept: the links before the oldest row of a type and of its newest.

They are sealed. Rows show their links to whoever has the disk, who could otherwise cut a chain off and call what is
left the whole of it. Invariant: what is read here was written by whoever has the key, for this type and this end.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from pubsub_core.history.at_rest import LINK_BYTES, START, EventCipher, Link
from pubsub_core.history.errors import HistoryDamaged
from pubsub_core.history.tables import HEADS


class Ends:
    """Those of all types in a database."""

    def __init__(self, vault: EventCipher) -> None:
        self._vault = vault

    def begin(self, connection: Connection, type_: str) -> None:
        """Note that nothing is kept of a type yet, unless something is noted."""
        if connection.execute(select(HEADS.c.head).filter_by(type=type_)).scalar() is None:
            sealed = {name: self._seal(name, type_, START) for name in ("base", "head")}
            connection.execute(HEADS.insert().values(type=type_, **sealed))

    def head(self, connection: Connection, type_: str) -> Link:
        """The link of the newest row, for whoever is about to add to it. Raises HistoryDamaged."""
        query = select(HEADS.c.head).filter_by(type=type_).with_for_update()
        return self._open("head", type_, connection.execute(query).scalar())

    def both(self, connection: Connection, type_: str) -> tuple[Link, Link]:
        """The link before the oldest row, and that of the newest. Raises HistoryDamaged."""
        found = connection.execute(select(HEADS.c.base, HEADS.c.head).filter_by(type=type_)).first()
        base, head = found if found is not None else (None, None)
        return self._open("base", type_, base), self._open("head", type_, head)

    def set_head(self, connection: Connection, type_: str, link: Link) -> None:
        connection.execute(update(HEADS).filter_by(type=type_).values(head=self._seal("head", type_, link)))

    def set_base(self, connection: Connection, type_: str, link: Link) -> None:
        connection.execute(update(HEADS).filter_by(type=type_).values(base=self._seal("base", type_, link)))

    def seal_all(self, connection: Connection) -> int:
        """Seal those of a database from before they were; how many types there were."""
        rows = connection.execute(select(HEADS)).all()
        bare = [each for each in rows if len(each.head) == LINK_BYTES]
        for each in bare:
            self.set_base(connection, each.type, bytes(each.base))
            self.set_head(connection, each.type, bytes(each.head))
        return len(bare)

    def _seal(self, end: str, type_: str, link: Link) -> bytes:
        return self._vault.seal(link, f"{end} {type_}".encode())

    def _open(self, end: str, type_: str, sealed: bytes | None) -> Link:
        link = self._vault.open(bytes(sealed or b""), f"{end} {type_}".encode())
        if link is None:
            raise HistoryDamaged(type_)
        return link
