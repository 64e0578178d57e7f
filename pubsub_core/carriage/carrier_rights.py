"""Which types each broker may carry: those for which a chain of vouches leads from the type's owner to it.

A broker says in a signed record below its place which key it vouches with, and whose types it would carry. So nobody
else can have a broker given rights, however many vouches they make up. Invariant: what is carried by a place follows
from the words and the record that are known, and from the time, alone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from authz import Identity, PublicKey
from authz.crypto import Seal
from authz.errors import InvalidKey, InvalidSignature
from bus.server import Carried
from bus.wire import subjects
from pubsub_core.trust import ALL, Web

MAX_OWNERS = 256
"""Maximum owners whose types one broker carries."""
MAX_CARRIED = 2_048
"""Maximum types named one by one in a broker's rights."""
MAX_CARRIERS = 16_384
"""Maximum brokers whose rights are known."""

_log = logging.getLogger("authfabric.access")


class Carrier(msgspec.Struct, frozen=True):
    """A broker is reached below this place, and carries types of these owners."""

    place: str
    owners: tuple[str, ...]
    time: float


_CARRIER = Seal("event carrier", Carrier)


def carrier_record(place: str, owners: Collection[str], now: float, by: Identity) -> tuple[str, bytes]:
    """The record of a broker: its name below the place, and what it says."""
    return "carrier", _CARRIER.sign(Carrier(place, tuple(sorted(owners))[:MAX_OWNERS], now), by)


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[int, int]
    until: float
    carried: Carried


class CarrierRights:
    """What brokers have said, and what follows from it."""

    def __init__(self, roots: Collection[PublicKey] = (), storage: Collection[str] = ()) -> None:
        """`roots` vouch for brokers for all types; `storage` are the names of storage classes that are ours alone."""
        self._web = Web(roots)
        self._storage = frozenset(storage)
        self._carriers: dict[str, tuple[str, Carrier]] = {}
        """By place: the broker's key, and what it has said."""
        self._changes = 0
        self._known: dict[str, _Known] = {}
        self._end: tuple[tuple[int, int], float] = ((-1, -1), 0.0)
        self._tables: dict[str, tuple[tuple[int, int], float, dict[str, frozenset[str]]]] = {}

    @property
    def places(self) -> Collection[str]:
        """The places of all brokers."""
        return tuple(self._carriers)

    @property
    def version(self) -> tuple[int, int]:
        """Another one whenever something else is known."""
        return self._web.words.version, self._changes

    def hear(self, subject: str, data: bytes) -> None:
        """Take in a record, if it is one that counts here."""
        _, _, _, place, what, *_ = subject.split(".")
        with contextlib.suppress(InvalidSignature):
            if what == "word":
                self._web.learn(data)
            elif what == "carrier":
                self._hear_carrier(place, data)

    def _hear_carrier(self, place: str, data: bytes) -> None:
        opened = _CARRIER.read(data)
        carrier, known = opened.value, self._carriers.get(place)
        if carrier.place != place or len(carrier.owners) > MAX_OWNERS:
            return
        if known is not None and carrier.time <= known[1].time:
            return
        if known is None and len(self._carriers) >= MAX_CARRIERS:
            return
        self._carriers[place] = str(opened.signer), carrier
        if known is None or (known[0], known[1].owners) != (str(opened.signer), carrier.owners):
            self._changes += 1
            self._web.owners = frozenset(
                owner for _, each in self._carriers.values() for owner in each.owners
            )

    def forget(self, now: float) -> None:
        """Forget vouches that have run out."""
        self._web.forget(now)

    def next_end(self, now: float) -> float:
        """When something changes by itself."""
        version, end = self._end
        if version != self.version or now >= end:
            self._end = self.version, self._web.words.next_end(now)
        return self._end[1]

    def carried(self, place: str, now: float) -> Carried:
        """What whoever has this place may carry."""
        known = self._known.get(place)
        if known is None or known.version != self.version or now >= known.until:
            if len(self._known) > MAX_CARRIERS:
                self._known.clear()
            known = _Known(self.version, self.next_end(now), self._find(place, now))
            self._known[place] = known
        return known.carried

    def _find(self, place: str, now: float) -> Carried:
        if place not in self._carriers:
            return Carried(storage=self._storage)
        key, carrier = self._carriers[place]
        allowed, denied = set[tuple[str, str]](), set[tuple[str, str]]()
        for owner in carrier.owners:
            with contextlib.suppress(InvalidKey):
                word = subjects.place(PublicKey.parse(owner))
                trusted = self._table(owner, now)
                if every := key in trusted[ALL]:
                    allowed.add((word, ALL))
                named = {(word, each) for each, by in trusted.items() if each != ALL and (key in by) != every}
                (denied if every else allowed).update(named)
        if len(allowed) + len(denied) > MAX_CARRIED:
            _log.warning("broker `%s` may carry more than %d types: not all are given", key, MAX_CARRIED)
            named_whole = {each[0] for each in denied}
            allowed = set(sorted(each for each in allowed if each[0] not in named_whole)[:MAX_CARRIED])
            denied = set()
        return Carried(frozenset(allowed), frozenset(denied), self._storage)

    def _table(self, owner: str, now: float) -> dict[str, frozenset[str]]:
        known = self._tables.get(owner)
        if known is None or known[0] != self.version or now >= known[1]:
            known = self.version, self.next_end(now), self._web.table(owner, now)
            if len(self._tables) > MAX_CARRIERS:
                self._tables.clear()
            self._tables[owner] = known
        return known[2]
