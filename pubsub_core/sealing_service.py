"""The keys of a running broker: which types travel sealed, and how it comes to read what it may of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic

from authz import AuthFabricError, Identity
from bus.connection import Connection
from bus.errors import BusError
from pubsub_core.catalogue import Catalogue
from pubsub_core.errors import UnknownType
from pubsub_core.event_type import EventType
from pubsub_core.keys.keyed_type import KeyedType
from pubsub_core.keys.member_service import KeyClient
from pubsub_core.keys.ring import KeyRing
from pubsub_core.keys.vault import Vault

RETRY_SECONDS = 1.0
REVIEW_SECONDS = 30.0
"""How often those who have the keys of a type ask whether plan and manager are still the same."""

_log = logging.getLogger("authfabric.events")


class Sealing:
    """Joins the key groups of all types that are sealed, and tells when what can be read has changed."""

    def __init__(
        self,
        bus: Connection,
        identity: Identity,
        catalogue: Catalogue,
        sealed: Mapping[str, bytes],
    ) -> None:
        """`sealed` are the types, by name, each with the capability by which its keys are asked for."""
        self._sealed = sealed
        self._catalogue = catalogue
        self.vault = Vault(KeyRing())
        self.keys = KeyClient(bus, identity, self.vault.ring)
        self.keys.on_change.append(self._on_keys)
        self._groups = self.vault.ring.groups
        self._changed = asyncio.Event()
        catalogue.on_accept.append(self._mark_sealed)

    async def start(self, stack: contextlib.AsyncExitStack, on_change: Callable[[], Awaitable[None]]) -> None:
        """Join, for as long as the stack is open; calls `on_change` when what can be read is something else."""
        await stack.enter_async_context(self.keys.running())
        for work in (self._follow_groups(on_change), self._join_groups()):
            task = asyncio.create_task(work)
            stack.callback(task.cancel)

    def _mark_sealed(self, definition: EventType) -> None:
        """Have a type's events, and those of its sub-types, travel sealed or not at all."""
        parent = definition.parent.id if definition.parent is not None else ""
        if definition.name in self._sealed or parent in self.vault.sealed:
            self.vault.sealed.add(definition.id)

    def _on_keys(self) -> None:
        """What we can read may have changed: then so has what we can ask of others, and they of us."""
        if self.vault.ring.groups != self._groups:
            self._groups = self.vault.ring.groups
            self._changed.set()

    async def _follow_groups(self, on_change: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await on_change()

    async def _join_groups(self) -> None:
        """Ask for the keys of all types that are sealed, and ask again: plans, managers and capabilities change."""
        problems: dict[str, str] = {}
        due = dict.fromkeys(self._sealed, 0.0)
        while self._sealed:
            now = monotonic()
            for name in [name for name, at in due.items() if at <= now]:
                due[name] = now + RETRY_SECONDS
                try:
                    await self._join_group(name)
                    due[name] = now + REVIEW_SECONDS
                    problems.pop(name, None)
                except (UnknownType, BusError):
                    continue  # the definition, or the manager, is not there yet
                except AuthFabricError as error:
                    if problems.get(name) != str(error):
                        problems[name] = str(error)
                        _log.warning("the events of `%s` cannot be read here: %s", name, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _join_group(self, name: str) -> None:
        keyed = KeyedType.of(self._catalogue, name)
        plan = await self.keys.join(keyed, self._sealed[name])
        if self.vault.learn(keyed.id, plan):
            self._changed.set()
