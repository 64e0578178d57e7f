"""Where context tables live: one record for each, signed, which brokers verify and keep up with.

Each who writes tables does so below a word of its own, which the server sees to; so nobody takes out what another has
written, or puts an older version in its place, though it was signed once.
Invariant: what is in `tables` was signed by somebody trusted, for this domain, and is the latest version heard of.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from time import time

from authz import AuthFabricError, Identity, PublicKey
from bus.nats import Connection, Subscription
from bus.stores import RecordStore, writer
from bus.wire import subjects
from pubsub_core.keys import lock_anew_for_network, lock_for_network, unlock_in_network
from pubsub_core.rules import MAX_TABLE_BYTES, TABLE, InvalidTable, Rows, Table

_log = logging.getLogger("authfabric.rules")
_LOCK = "context table"


class TableStore:
    """The tables of one domain."""

    def __init__(
        self, connection: Connection, domain: str, trusted: Collection[PublicKey], network: bytes = b""
    ) -> None:
        """`network` is a secret that all brokers share, if the store is not to read the tables."""
        self._records = RecordStore(connection, subjects.CONTEXT)
        self._own = f"{subjects.token(domain)}.{writer(connection)}"
        self._domain = domain
        self._trusted = trusted
        self._network = network
        self._read = 0
        self._numbers: dict[str, int] = {}
        self._versions: dict[str, int] = {}
        self._sources: dict[str, str] = {}
        """In which record each table stands."""
        self.tables: dict[str, Rows] = {}
        self.left_out: dict[str, str] = {}
        """What is stored and does not count, and why."""

    async def refresh(self) -> bool:
        """Take in what is new; says whether anything was. What is not rightly signed is left out."""
        records = await self._records.since(self._read, subjects.token(self._domain))
        for record in records:
            self._read = record.number
            self._numbers[record.name] = record.number
            if record.data:
                self._accept(record.name, record.data)
            elif self._sources.get(_table(record.name)) == record.name:
                self.tables.pop(_table(record.name), None)
                self.left_out.pop(_table(record.name), None)
        return bool(records)

    async def lock_anew(self) -> tuple[int, int]:
        """Lock all tables of this writer by the first secret of the network. Raises StoreUnavailable.

        Returns how many are locked anew, and how many are left, since none of the secrets opens them.
        """
        return await self._records.rewrite(self._own, partial(lock_anew_for_network, self._network, _LOCK))

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be something new."""
        return await self._records.listen(on_news, subjects.token(self._domain))

    async def put(self, name: str, rows: Rows, identity: Identity) -> None:
        """Sign and store a table. Raises InvalidTable, StoreUnavailable, RecordChanged if somebody was faster."""
        await self._write(Table(self._domain, name, self._next(name), rows), identity)

    async def remove(self, name: str, identity: Identity) -> None:
        """Sign that there is no such table: what depends on it is withheld from then on. Raises as `put` does."""
        await self._write(Table(self._domain, name, self._next(name), {}, removed=True), identity)

    def _next(self, name: str) -> int:
        """A version after all others, also after those that are signed by somebody else or are no more."""
        return max(self._versions.get(name, 0) + 1, int(time() * 1000))

    async def _write(self, table: Table, identity: Identity) -> None:
        data = TABLE.sign(table, identity)
        if len(data) > MAX_TABLE_BYTES:
            raise InvalidTable(table.name, f"has {len(data)} bytes, and may have {MAX_TABLE_BYTES}: split it")
        stored = f"{self._own}.{subjects.token(table.name)}"
        data = lock_for_network(self._network, _LOCK, data)
        self._numbers[stored] = await self._records.write(stored, data, self._numbers.get(stored, 0))
        self._heed(table, stored)

    def _heed(self, table: Table, stored: str) -> None:
        self._sources[table.name] = stored
        self._versions[table.name] = table.version
        if table.removed:
            self.tables.pop(table.name, None)
        else:
            self.tables[table.name] = table.rows

    def _accept(self, stored: str, data: bytes) -> None:
        try:
            opened = unlock_in_network(self._network, _LOCK, data)
            table = TABLE.open(opened, self._trusted).value
        except AuthFabricError as error:
            _log.warning("the context table `%s` is left out: %s", _table(stored), error)
            name = _table(stored)
            if name not in self._versions or stored == self._sources[name]:  # else there is one that counts
                self.left_out[name] = str(error)
            return
        misplaced = table.domain != self._domain or table.name != _table(stored)
        if misplaced or table.version < self._versions.get(table.name, 0):
            _log.warning("the context table `%s` is left out: it is not the latest", table.name)
            return
        self.left_out.pop(table.name, None)
        self._heed(table, stored)


def _table(stored: str) -> str:
    """The table's name, as it says itself."""
    return subjects.untoken(stored.rpartition(".")[2])
