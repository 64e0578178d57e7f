"""Where definitions live: each version under its UUIDs, as its signer encoded it, for every broker to verify."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import time

from bus.connection import Connection, Subscription
from bus.record_store import RecordStore
from bus.subjects import TYPES
from pubsub_core.catalogue import Catalogue
from pubsub_core.errors import TypeRefused, UnknownType
from pubsub_core.keys.errors import CannotOpen
from pubsub_core.keys.exchange import lock, unlock
from pubsub_core.type_signature import SignedType

_log = logging.getLogger("authfabric.events")


class TypeStore:
    """The authoritative copies, and a catalogue that keeps up with them."""

    def __init__(self, connection: Connection, catalogue: Catalogue, network: bytes = b"") -> None:
        """`network` is a secret that all brokers share, if the store is not to read the definitions."""
        self.catalogue = catalogue
        self._network = network
        self._records = RecordStore(connection, TYPES)
        self._read = 0

    async def publish(self, signed: SignedType) -> None:
        """Verify a definition and store it. Raises TypeRefused, StoreUnavailable."""
        await self.refresh()
        known = signed.definition.version in self.catalogue
        definition = self.catalogue.accept(signed, time())
        if not known:
            await self._records.put(_name(definition.id, definition.version), self._locked(signed.encode()))

    async def remove(self, id_: str) -> None:
        """Take all versions of a type out. Raises TypeRefused while others extend it."""
        versions = [each.definition.version for each in self.catalogue if each.definition.id == id_]
        self.catalogue.remove(id_)
        for version in versions:
            await self._records.remove(_name(id_, version))

    async def refresh(self) -> bool:
        """Take in what is new in the store; says whether anything was. What is not rightly made is left out."""
        records = await self._records.since(self._read)
        for record in records:
            self._read = record.number
            if record.data:
                self._accept(record.data)
            else:
                self._forget(record.name.partition(".")[0])
        return bool(records)

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be a new definition."""
        return await self._records.listen(on_news)

    def _locked(self, data: bytes) -> bytes:
        return lock(self._network, "type definition", data) if self._network else data

    def _unlocked(self, data: bytes) -> bytes:
        return unlock(self._network, "type definition", data) if self._network else data

    def _accept(self, data: bytes) -> None:
        try:
            self.catalogue.accept(SignedType.decode(self._unlocked(data)), time())
        except (TypeRefused, CannotOpen) as error:
            _log.warning("a definition in the store is left out: %s", error)

    def _forget(self, id_: str) -> None:
        try:
            self.catalogue.remove(id_)
        except (UnknownType, TypeRefused):  # gone with another of its versions, or still built upon
            return


def _name(id_: str, version: str) -> str:
    return f"{id_}.{version}"
