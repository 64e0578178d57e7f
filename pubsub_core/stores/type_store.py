"""Where definitions live: each version as its signer encoded it, for every broker to verify.

Whoever writes a record writes below a word for its own key, and the server lets it write nowhere else: so nobody can
take out, or replace, what somebody else has written.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import time

from authz import AuthFabricError
from authz.errors import InvalidSignature
from bus.nats import Connection, Subscription
from bus.stores import Record, RecordStore, writer
from bus.wire import subjects
from pubsub_core.errors import TypeRefused
from pubsub_core.keys import CannotOpen, lock_anew_for_network, lock_for_network, unlock_in_network
from pubsub_core.types import POLICY, REMOVAL, UNREAD, Catalogue, OwnerPolicies, SignedType

_log = logging.getLogger("authfabric.events")
_REMOVED = "removed-"
"""Prefix of the record that a type was removed."""
_POLICY = "policy-"
"""Prefix of the record with an owner's policy for a type."""


class TypeStore:
    """The authoritative copies, and a catalogue that keeps up with them."""

    def __init__(
        self,
        connection: Connection,
        catalogue: Catalogue,
        network: bytes = b"",
        policies: OwnerPolicies | None = None,
    ) -> None:
        """`network` is a secret that all brokers share, if the store is not to read the definitions.

        `policies` keeps up with what owners say about their types, if anything does.
        """
        self.catalogue = catalogue
        self._policies = policies
        self._network = network
        self._records = RecordStore(connection, subjects.TYPES)
        self._own = writer(connection)
        self._read = 0

    async def publish(self, signed: SignedType) -> None:
        """Verify a definition and store it. Raises TypeRefused, StoreUnavailable."""
        await self.refresh()
        before = self.catalogue.revision
        self.catalogue.accept(signed, time())
        if self.catalogue.revision != before:
            await self._records.put(f"{self._own}.{_place(signed)}", self._locked(signed.encode()))

    async def publish_policy(self, data: bytes) -> None:
        """Store what the owner of a type says about it. Raises TypeRefused, InvalidSignature, StoreUnavailable."""
        await self.refresh()
        opened = POLICY.read(data)
        type_ = opened.value.type
        if not self.catalogue.knows(type_):
            raise TypeRefused(type_, "there is no such type in the store: publish its definition first")
        definition = self.catalogue.newest(type_)
        if str(opened.signer) != definition.owner:
            raise TypeRefused(definition.name, "only its owner can say who may use it")
        name = f"{self._own}.{type_}.{_POLICY}{hashlib.sha256(data).hexdigest()}"
        await self._records.put(name, self._locked(data))
        for record in await self._records.all(f"{self._own}.{type_}"):
            if _is_policy(record) and record.data and record.name != name:
                await self._records.remove(record.name)

    async def remove(self, id_: str, word: bytes) -> None:
        """Remove all versions of a type, by its owner's signature. Raises InvalidSignature, TypeRefused."""
        definition, opened = self.catalogue.newest(id_), REMOVAL.read(word)
        if (str(opened.signer), opened.value.name) != (definition.owner, definition.name):
            raise InvalidSignature
        known = [each for each in self.catalogue if each.definition.id == id_]
        if any(each.at > opened.value.at for each in known):
            raise TypeRefused(definition.name, "it was signed later than its removal: look at the clocks")
        own = (self.catalogue.newest(each).owner for each in self.catalogue.extended_by(id_))
        if definition.owner in own:
            raise TypeRefused(definition.name, "other types of its owner extend it: remove those first")
        places = {f"{self._own}.{_place(each)}" for each in known}
        self._take_out(word)
        name = f"{self._own}.{id_}.{_REMOVED}{hashlib.sha256(word).hexdigest()}"
        await self._records.put(name, self._locked(word))
        for record in await self._records.all(f"{self._own}.{id_}"):
            if record.name in places and record.data:
                await self._records.remove(record.name)

    async def lock_anew(self) -> tuple[int, int]:
        """Lock all records of this writer by the first secret of the network. Raises StoreUnavailable.

        Returns how many are locked anew, and how many are left, since none of the secrets opens them. What others have
        written they lock themselves.
        """
        anew = partial(lock_anew_for_network, self._network, "type definition")
        return await self._records.rewrite(self._own, anew)

    async def refresh(self) -> bool:
        """Take in what is new in the store; says whether anything was. What is not rightly made is left out."""
        records = await self._records.since(self._read)
        problems: Counter[str] = Counter()
        for record in records:
            self._read = record.number
            if record.data:  # what is merely missing from the store anybody could have taken out
                problems.update(self._read_in(record))
        for problem, count in problems.items():
            what = "a definition in the store is" if count == 1 else f"{count} definitions in the store are"
            _log.warning("%s left out: %s", what, problem)
        return any(not _is_policy(record) for record in records)

    def read_anew(self) -> None:
        """Have the next refresh look at everything: what was left out may be trusted now."""
        self._read = 0

    async def listen(self, on_news: Callable[[], None]) -> Subscription:
        """Call back whenever there may be a new definition."""
        return await self._records.listen(on_news)

    def _locked(self, data: bytes) -> bytes:
        return lock_for_network(self._network, "type definition", data)

    def _unlocked(self, data: bytes) -> bytes:
        return unlock_in_network(self._network, "type definition", data)

    def _read_in(self, record: Record) -> list[str]:
        """Take one record in; what is returned is why it was not."""
        try:
            data = self._unlocked(record.data)
            if _is_policy(record):
                if self._policies is not None:
                    self._policies.accept(data)
            elif record.name.rpartition(".")[2].startswith(_REMOVED):
                self._take_out(data)
            else:
                self.catalogue.accept(SignedType.decode(data), time())
        except (TypeRefused, InvalidSignature, CannotOpen) as error:
            return [self._problem(error)]
        return []

    def _problem(self, error: AuthFabricError) -> str:
        if isinstance(error, CannotOpen):
            return "not kept under the network key given"
        if isinstance(error, TypeRefused) and error.name == UNREAD and not self._network:
            return "cannot be read: if kept under a network key, give that"
        return str(error)

    def _take_out(self, word: bytes) -> None:
        """Forget what a word takes out, which is only what is its signer's. Raises InvalidSignature, TypeRefused."""
        opened = REMOVAL.read(word)
        self.catalogue.take_out(str(opened.signer), opened.value.name, opened.value.at, time())


def _is_policy(record: Record) -> bool:
    return record.name.rpartition(".")[2].startswith(_POLICY)


def _place(signed: SignedType) -> str:
    """Where a definition stands below its writer; what is signed anew stands beside what it was."""
    definition = signed.definition
    return f"{definition.id}.{definition.version}-{hashlib.sha256(signed.encode()).hexdigest()[:16]}"
