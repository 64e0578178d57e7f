"""The event service as the console shows it: types, and by whom the keys of their attributes are held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from authz import AuthFabricError, Identity
from bus.nats import Connection
from pubsub_core.key_groups import GroupStatus, KeyDistribution, KeyedType, KeyManager
from pubsub_core.keys import Plan
from pubsub_core.stores import TypeStore
from pubsub_core.types import Catalogue, EventType


@dataclass(frozen=True, slots=True)
class TypeView:
    """The newest version of an event type."""

    definition: EventType
    groups: list[GroupStatus] = field(default_factory=list)
    """Its key groups, where this console has the key of their manager."""


async def read_types(
    bus: Connection, network: bytes, managers: Callable[[], Sequence[Identity]]
) -> list[TypeView]:
    """The event types that the store has, with the key groups of those that one of these manages."""
    catalogue = Catalogue()
    try:
        await TypeStore(bus, catalogue, network).refresh()
    except AuthFabricError:
        return []
    newest = {each.definition.id: each.definition for each in catalogue}
    found = sorted(newest.values(), key=lambda each: each.name)
    known = managers()
    return [TypeView(each, await _groups(bus, catalogue, each, known)) for each in found]


async def _groups(
    bus: Connection, catalogue: Catalogue, definition: EventType, managers: Sequence[Identity]
) -> list[GroupStatus]:
    found = list[GroupStatus]()
    keyed = KeyedType.of_type(catalogue, definition)
    for identity in managers:
        office = KeyDistribution(identity, keyed, Plan(()), keyed.verifier())
        try:
            found += (await KeyManager(bus, office).status()).groups
        except AuthFabricError:  # it manages none of this type, or its store is away
            continue
    return sorted(found, key=lambda each: each.attributes)
