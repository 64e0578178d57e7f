"""Who could have the keys of a type: asked of its key manager's state, by the manager's key, from the owner's folders.

The folders are those that `authfabric event apply` makes: `manager.key`, and `brokers/NAME.pub` for each broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from authfabric.exposure.evidence import Keys
from authfabric.terminal import passphrase
from authz import PublicKey
from bus.identity import load_key
from bus.nats import Connection
from pubsub_core.history import Span
from pubsub_core.key_groups import GroupStatus, KeyDistribution, KeyedType, KeyManager
from pubsub_core.keys import Plan
from pubsub_core.types import Catalogue, EventType

MANAGER = "manager.key"


async def find_keys(
    bus: Connection, catalogue: Catalogue, definition: EventType, folders: Iterable[Path]
) -> Keys:
    """When which broker could have which key, as far as the folders tell. Raises KeyFileRefused, BusError."""
    groups: list[GroupStatus] = []
    brokers: dict[str, PublicKey] = {}
    keyed = KeyedType.of_type(catalogue, definition)
    for folder in folders:
        if (folder / MANAGER).exists():
            identity = load_key(folder / MANAGER, passphrase.known)
            office = KeyDistribution(identity, keyed, Plan(()), keyed.verifier())
            groups += (await KeyManager(bus, office).status()).groups
        for each in sorted((folder / "brokers").glob("*.pub")):
            brokers[each.stem] = PublicKey.parse(each.read_text().strip())
    return _keys(
        groups, brokers, {each.name: each.id for each in catalogue.names(definition.version).values()}
    )


def _keys(groups: Iterable[GroupStatus], brokers: dict[str, PublicKey], ids: dict[str, str]) -> Keys:
    by_key: dict[str, dict[str, list[Span]]] = {str(key): {} for key in brokers.values()}
    sealed = set[str]()
    for group in groups:
        own = [ids[name] for name in group.attributes if name in ids]
        sealed.update(own)
        spans = [(each.key, Span(each.start, each.end)) for each in group.held]
        spans += [(each.key, Span(each.began or float("-inf"))) for each in group.members]
        for key, span in spans:
            for attribute in own if key in by_key else ():
                by_key[key].setdefault(attribute, []).append(span)
    held = {name: by_key[str(key)] for name, key in brokers.items()} if sealed else {}
    return Keys(frozenset(sealed), held)
