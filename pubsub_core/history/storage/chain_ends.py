"""The ends of the chains in which events are kept: the links before the oldest row of a type and of its newest.

They are sealed. Rows show their links to whoever has the disk, who could otherwise cut a chain off and call what is
left the whole of it. Invariant: what is read here was written by whoever has the key, for this type and this end. The
key that sealed them is the one that seals what is added to the chain.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, select, update

from pubsub_core.history.at_rest import LINK_BYTES, START, EventCipher, Link
from pubsub_core.history.errors import HistoryDamaged
from pubsub_core.history.history_keys import HistoryKeys
from pubsub_core.history.storage.tables import ABOUT, HEADS, SEAMS

KEY = b"key"
SEALED_ENDS = b"the ends of chains are sealed"


class Seam(NamedTuple):
    """How far a chain was sealed anew: to this row, whose link was another before."""

    row: int
    before: Link


class Ends:
    """Those of all types in a database."""

    def __init__(self, vault: HistoryKeys) -> None:
        self._vault = vault

    def cipher(self, connection: Connection) -> EventCipher:
        """What seals now, for whoever is about to write. Raises HistoryDamaged."""
        word = connection.execute(select(ABOUT.c.key_check).with_for_update()).scalar()
        found = self._opened(bytes(word or b""), KEY)
        if found is None:
            raise HistoryDamaged("")
        return found[0]

    def hold(self, connection: Connection, type_: str) -> EventCipher:
        """What seals now, for whoever is about to forget rows: none of the type is sealed anew meanwhile."""
        cipher = self.cipher(connection)
        connection.execute(select(HEADS.c.type).filter_by(type=type_).with_for_update()).scalar()
        return cipher

    def begin(self, connection: Connection, type_: str) -> None:
        """Note that nothing is kept of a type yet, unless something is noted."""
        if connection.execute(select(HEADS.c.head).filter_by(type=type_)).scalar() is None:
            cipher = self.cipher(connection)
            sealed = {name: _seal(cipher, name, type_, START) for name in ("base", "head")}
            connection.execute(HEADS.insert().values(type=type_, **sealed))

    def head(self, connection: Connection, type_: str) -> tuple[EventCipher, Link]:
        """The link of the newest row and what seals the next, for whoever is about to add it. Raises HistoryDamaged."""
        query = select(HEADS.c.head).filter_by(type=type_).with_for_update()
        return self._open("head", type_, connection.execute(query).scalar())

    def opens(self, connection: Connection, type_: str) -> bool:
        """Whether the key is known that seals a type: what was read before was not sealed by a later one."""
        head = connection.execute(select(HEADS.c.head).filter_by(type=type_)).scalar()
        return head is None or self._vault.opened(bytes(head), f"head {type_}".encode()) is not None

    def both(self, connection: Connection, type_: str, *, writing: bool = False) -> tuple[Link, Link]:
        """The link before the oldest row, and that of the newest. Raises HistoryDamaged."""
        query = select(HEADS.c.base, HEADS.c.head).filter_by(type=type_)
        found = connection.execute(query.with_for_update() if writing else query).first()
        base, head = found if found is not None else (None, None)
        return self._open("base", type_, base)[1], self._open("head", type_, head)[1]

    def set_head(self, connection: Connection, type_: str, link: Link, cipher: EventCipher) -> None:
        sealed = _seal(cipher, "head", type_, link)
        connection.execute(update(HEADS).filter_by(type=type_).values(head=sealed))

    def set_base(self, connection: Connection, type_: str, link: Link, cipher: EventCipher) -> None:
        sealed = _seal(cipher, "base", type_, link)
        connection.execute(update(HEADS).filter_by(type=type_).values(base=sealed))

    def seam(self, connection: Connection, type_: str) -> Seam | None:
        """How far the chain of a type was sealed anew, if that is under way. Raises HistoryDamaged."""
        found = connection.execute(select(SEAMS.c.row, SEAMS.c.link).filter_by(type=type_)).first()
        return (
            None if found is None else Seam(found.row, self._open(f"seam {found.row}", type_, found.link)[1])
        )

    def set_seam(self, connection: Connection, type_: str, seam: Seam, cipher: EventCipher) -> None:
        connection.execute(delete(SEAMS).filter_by(type=type_))
        sealed = _seal(cipher, f"seam {seam.row}", type_, seam.before)
        connection.execute(SEAMS.insert().values(type=type_, row=seam.row, link=sealed))

    def use(self, connection: Connection, cipher: EventCipher) -> None:
        """Have this key seal everything from now on. Raises HistoryDamaged."""
        self.cipher(connection)
        connection.execute(update(ABOUT).values(key_check=cipher.seal(SEALED_ENDS, KEY)))
        for (type_,) in connection.execute(select(HEADS.c.type).order_by(HEADS.c.type)).all():
            base, head = self.both(connection, type_, writing=True)
            self.set_base(connection, type_, base, cipher)
            self.set_head(connection, type_, head, cipher)

    def seal_all(self, connection: Connection) -> int:
        """Seal those of a database from before they were; how many types there were."""
        rows = connection.execute(select(HEADS)).all()
        bare = [each for each in rows if len(each.head) == LINK_BYTES]
        for each in bare:
            self.set_base(connection, each.type, bytes(each.base), self._vault.newest)
            self.set_head(connection, each.type, bytes(each.head), self._vault.newest)
        return len(bare)

    def _open(self, end: str, type_: str, sealed: bytes | None) -> tuple[EventCipher, Link]:
        found = self._opened(bytes(sealed or b""), f"{end} {type_}".encode())
        if found is None:
            raise HistoryDamaged(type_)
        return found

    def _opened(self, sealed: bytes, place: bytes) -> tuple[EventCipher, bytes] | None:
        """What opens, also by a key that was added a moment ago."""
        found = self._vault.opened(sealed, place)
        return self._vault.opened(sealed, place) if found is None and self._vault.look() else found


def _seal(cipher: EventCipher, end: str, type_: str, link: Link) -> bytes:
    return cipher.seal(link, f"{end} {type_}".encode())
