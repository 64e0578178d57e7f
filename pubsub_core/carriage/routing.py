"""Content routing that hides content: events travel on subjects that end in a keyed digest of one attribute's value.

The owner of a type names the attribute. Whoever can read it computes, from the values that its clients ask for, on
which subjects they are published, and reads those only; whoever cannot, reads all of the type. Servers see which
events have values of one bucket, and nothing else.

The key is the attribute's group key, so the subjects change with each epoch. Invariant: a reader that selects by value
knows every key by which a sender routes. For that, senders route by a key, and by a plan, only when it has been there
for `SETTLE_SECONDS`, and meanwhile on the route that all read; and readers select by value only while the manager has
confirmed within `CONFIRMED_SECONDS`, which is less, that they have all keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from math import inf
from typing import TypeAlias

import msgspec
from cachetools import LRUCache

from authz.predicate import Equal, In, Predicate, conjuncts
from bus.wire import subjects
from pubsub_core.events import Event, EventCipher
from pubsub_core.keys import Plan
from pubsub_core.types import Carriage, Catalogue, EventType

SETTLE_SECONDS = 60.0
"""Seconds for which a key is held before events are routed by it."""
CONFIRMED_SECONDS = 45.0
"""Seconds for which a reader selects by value after its keys were confirmed as complete."""
MAX_SELECTED = 512
"""Maximum filter subjects of one type; beyond, a broker reads all of the type."""
MAX_TOKENS = 65_536
"""Maximum digests that are remembered."""
_CLEAR_EPOCH = "0"

Route: TypeAlias = tuple[str, str]
"""The epoch of the key, and the digest of the value."""
ALL_READ: Route = (subjects.WHOLE, subjects.WHOLE)
"""The route that everybody reads who wants the type."""

_encode = msgspec.msgpack.Encoder().encode


class Routing:
    """On which subjects events are published and read."""

    def __init__(self, catalogue: Catalogue, vault: EventCipher, now: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._vault = vault
        self._now = now
        self._tokens: LRUCache[tuple[bytes, int, object], str] = LRUCache(MAX_TOKENS)
        self._plans: dict[str, tuple[Plan, float]] = {}
        self._keys: LRUCache[tuple[str, str, int], bytes] = LRUCache(1024)

    def routed(self, type_: str) -> str:
        """The UUID of the attribute by which a type is routed; nothing if it is not."""
        return self._carriage(type_).routed

    def _carriage(self, type_: str) -> Carriage:
        """As its definition says, or that of the type it extends."""
        found: EventType | None = self._catalogue.newest(type_)
        while found is not None:
            if found.carriage.routed:
                return found.carriage
            found = self._catalogue.newest(found.parent.id) if found.parent is not None else None
        return Carriage()

    def values(self, type_: str, asked: Predicate) -> frozenset[object] | None:
        """The values of a type's routing attribute that a predicate asks for; None if it may be any."""
        attribute = self.routed(type_)
        return asked_values(asked, attribute) if attribute else None

    def routes(self, type_: str, events: Iterable[Event]) -> list[Route]:
        """On which route each event of a type is published."""
        carriage, now = self._carriage(type_), self._now()
        key = self._sealing(type_, carriage.routed, now) if carriage.routed else None
        if key is None:
            return [ALL_READ for _ in events]
        epoch, secret = key
        values = (each.attributes.get(carriage.routed) for each in events)
        return [
            (epoch, self._token(secret, carriage, each)) if _routable(each) else ALL_READ for each in values
        ]

    def _sealing(self, type_: str, attribute: str, now: float) -> tuple[str, bytes] | None:
        """By what a type is routed now: the epoch, and the key; None while it goes to all who want it."""
        vault, plan = self._vault, self._vault.plan(type_)
        if type_ not in vault.sealed:
            return _CLEAR_EPOCH, self._clear_key(type_)
        if plan.pace or now - self._planned(type_, plan, now) < SETTLE_SECONDS:
            return None
        group = plan.group_of.get(attribute)
        if group is None:
            return _CLEAR_EPOCH, self._clear_key(type_)
        keys = vault.ring.of(group.id)
        settled = [key for key in keys or () if key.start + SETTLE_SECONDS <= now]
        return (str(settled[-1].epoch), self._key(type_, group.id, settled[-1].epoch)) if settled else None

    def _planned(self, type_: str, plan: Plan, now: float) -> float:
        """Since when a type is sealed by this plan; the keys of a plan that was here before are as old as they say."""
        known = self._plans.get(type_)
        if known is None or known[0] != plan:
            known = self._plans[type_] = plan, -inf if known is None else now
        return known[1]

    def filters(self, type_: str, values: Collection[object] | None) -> set[str]:
        """The subjects on which all events of a type are published whose routing attribute has one of these values.

        With None for the values, all events of the type.
        """
        place = self._catalogue.newest(type_).place
        every = {subjects.parcel(None, place, "*", "*")}
        carriage = self._carriage(type_)
        if values is None or not carriage.routed:
            return every
        keys = self._reading(type_, carriage.routed)
        if keys is None:
            return every
        tokens = {(epoch, self._token(secret, carriage, each)) for epoch, secret in keys for each in values}
        if len(tokens) > MAX_SELECTED:
            return every
        return {subjects.parcel(None, place, *route) for route in {ALL_READ, *tokens}}

    def _reading(self, type_: str, attribute: str) -> list[tuple[str, bytes]] | None:
        """By what others may route a type now; None if not all of it is known here."""
        vault, plan = self._vault, self._vault.plan(type_)
        if type_ not in vault.sealed:
            return [(_CLEAR_EPOCH, self._clear_key(type_))]
        if not 0 <= self._now() - vault.confirmed.get(type_, -inf) <= CONFIRMED_SECONDS:
            return None
        group = plan.group_of.get(attribute)
        if group is None:
            return [(_CLEAR_EPOCH, self._clear_key(type_))]
        keys = vault.ring.of(group.id)
        if keys is None:
            return None
        return [(str(key.epoch), self._key(type_, group.id, key.epoch)) for key in keys]

    def _key(self, type_: str, group: str, epoch: int) -> bytes:
        found = self._keys.get((type_, group, epoch))
        if found is None:
            key = self._vault.ring.at(group, epoch)
            assert key is not None
            found = self._keys[type_, group, epoch] = key.routing_key(type_)
        return found

    def _clear_key(self, type_: str) -> bytes:
        return type_.encode()

    def _token(self, secret: bytes, carriage: Carriage, value: object) -> str:
        """What stands for the bucket of a value. A value that is missing has one, too."""
        known = (secret, carriage.bits, (type(value), value))
        token = self._tokens.get(known)
        if token is None:
            digest = hashlib.blake2b(_encode(value), key=secret, digest_size=8).digest()
            token = f"{int.from_bytes(digest, 'big') >> (64 - carriage.bits):x}"
            self._tokens[known] = token
        return token


def asked_values(predicate: Predicate, attribute: str) -> frozenset[object] | None:
    """The values of an attribute that an event must have one of, for a predicate to hold; None if it may have any."""
    found: frozenset[object] | None = None
    for term in conjuncts(predicate):
        if isinstance(term, Equal) and not term.fold:
            values = frozenset({term.value})
        elif isinstance(term, In):
            values = frozenset(term.values)
        else:
            continue
        if term.path.keys == (attribute,) and all(map(_routable, values)):
            found = values if found is None or len(values) < len(found) else found
    return found


def _routable(value: object) -> bool:
    return value is None or isinstance(value, (str, int))
