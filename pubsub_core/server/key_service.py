"""The keys of a running broker: which types travel sealed, and how it comes to read what it may of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic, time

from authz import AuthFabricError, Identity
from bus.errors import BusError
from bus.nats import Connection
from bus.runtime import in_background
from pubsub_core.errors import UnknownType
from pubsub_core.events import EventCipher
from pubsub_core.key_groups import GRACE, KeyClient, KeyedType, Managers
from pubsub_core.keys import AdmissionRefused, KeyRing, ManagerUntrusted
from pubsub_core.types import Catalogue, EventType

RETRY_SECONDS = 1.0
HASTE_SECONDS = 0.2
"""Minimum seconds before the manager is asked again, where the answer has visibly changed."""
REVIEW_SECONDS = 30.0
"""Seconds between two checks whether a type's plan and manager are still the same."""

QUIET_SECONDS = 5.0
"""Seconds without a manager's answer before it is logged: one that starts with its broker needs a moment."""

KEYLESS = "it is sealed, and the broker was not told to ask for its keys (`broker serve --sealed`)"

_log = logging.getLogger("authfabric.events")


class Sealing:
    """Joins the key groups of all types that are sealed, and tells when what can be read has changed."""

    def __init__(
        self,
        bus: Connection,
        identity: Identity,
        catalogue: Catalogue,
        sealed: Mapping[str, bytes],
        managers: Managers,
    ) -> None:
        """`sealed` are the types, by name, each with the capability by which its keys are asked for."""
        self._sealed = dict(sealed)
        self._catalogue = catalogue
        self.vault = EventCipher(KeyRing())
        self.keys = KeyClient(bus, identity, self.vault.ring, managers)
        self.keys.on_change.append(self._on_keys)
        self.keys.on_doubt.append(self.doubt)
        self.on_keys: list[Callable[[], None]] = []
        """Called whenever keys have come, for what was waiting for them."""
        self._due = dict.fromkeys(sealed, 0.0)
        """When to ask about each type again."""
        self._asked: dict[str, float] = {}
        self._lacking = set(sealed)
        """The types whose keys no manager has given yet."""
        self._complete = asyncio.Event()
        self._hurried = asyncio.Event()
        self._groups, self._departures = self.vault.ring.groups, self.vault.ring.departures
        self._changed = asyncio.Event()
        self._keyless = asyncio.Event()
        self.vault.on_sealed.append(self._keyless.set)
        catalogue.on_accept.append(self._mark_sealed)

    async def start(self, stack: contextlib.AsyncExitStack, on_change: Callable[[], Awaitable[None]]) -> None:
        """Join, for as long as the stack is open; calls `on_change` when what can be read is something else."""
        await stack.enter_async_context(self.keys.running())
        for work in (partial(self._follow_groups, on_change), self._join_groups, self._find_plans):
            in_background(stack, work)

    async def until_complete(self, seconds: float) -> None:
        """Return when the keys of all types are here, or after some seconds: what is in clear is served anyway."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._lacking:
                    self._complete.clear()
                    await self._complete.wait()

    def _mark_sealed(self, definition: EventType) -> None:
        """Have a type's events, and those of its sub-types, travel sealed or not at all."""
        parent = definition.parent.id if definition.parent is not None else ""
        if definition.name in self._sealed:
            self.vault.asked.add(definition.id)
        if definition.name in self._sealed or parent in self.vault.sealed:
            self.vault.mark_sealed([definition.id])

    def renew(self, sealed: Mapping[str, bytes]) -> None:
        """Ask by these capabilities from now on, for keys of more types too; other types keep theirs."""
        news = {name: chain for name, chain in sealed.items() if self._sealed.get(name) != chain}
        if not news:
            return
        self._sealed.update(news)
        self._due.update(dict.fromkeys(news, 0.0))
        for each in self._catalogue:
            self._mark_sealed(each.definition)
        self._hurried.set()

    def doubt(self, type_id: str) -> None:
        """Plan and keys of a type may be others than are known here: ask at once, unless that was done just now.

        Without a type, it may be any.
        """
        for name in self._sealed:
            with contextlib.suppress(UnknownType):
                if type_id in ("", self._catalogue.named(name).id):
                    asked = self._asked.get(name, -math.inf)
                    self._due[name] = min(self._due[name], asked + HASTE_SECONDS)
                    self._hurried.set()

    def _on_keys(self) -> None:
        """What we can read may have changed: then so has what we can ask of others, and they of us."""
        ring = self.vault.ring
        if (ring.groups, ring.departures) != (self._groups, self._departures):
            # What those who left have said that they want must not be read with the keys that they had.
            self._groups, self._departures = ring.groups, ring.departures
            self._changed.set()
        else:
            for tell in self.on_keys:
                tell()

    async def _follow_groups(self, on_change: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await on_change()

    async def _join_groups(self) -> None:
        """Ask for the keys of all types that are sealed, and ask again: plans, managers and capabilities change."""
        problems: dict[str, str] = {}
        answered: dict[str, float] = {}
        while True:
            now = monotonic()
            self.vault.expire(time())
            for name in [name for name, at in self._due.items() if at <= now]:
                self._due[name], self._asked[name] = now + RETRY_SECONDS, now
                try:
                    await self._join_group(name)
                    self._lacking.discard(name)
                    self._complete.set()
                    self._due[name], answered[name] = now + REVIEW_SECONDS, monotonic()
                    if problems.pop(name, None) is not None:
                        _log.warning("the keys of `%s` are here", name)
                except AuthFabricError as error:
                    absent = isinstance(error, (UnknownType, BusError))  # the definition, or the manager
                    quiet = absent and monotonic() - answered.setdefault(name, now) < QUIET_SECONDS
                    if not quiet and problems.get(name) != str(error):
                        problems[name] = str(error)
                        _log.warning("the keys of `%s` are not given here: %s", name, error)
            await self._pause()

    async def _find_plans(self) -> None:
        """Learn what is in clear of sealed types whose keys we were not told to ask for, and say that it is all."""
        while True:
            self._keyless.clear()
            for id_ in self.vault.keyless:
                with contextlib.suppress(UnknownType):
                    await self._find_plan(KeyedType.of_type(self._catalogue, self._catalogue.newest(id_)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REVIEW_SECONDS):
                    await self._keyless.wait()

    async def _find_plan(self, keyed: KeyedType) -> None:
        learnt = False
        with contextlib.suppress(BusError, ManagerUntrusted):
            learnt = self.vault.learn(keyed.id, await self.keys.find_plan(keyed), time() + GRACE)
        if keyed.id not in self.vault.refusals:
            self.vault.refusals[keyed.id] = KEYLESS
            _log.warning("what is sealed of `%s` is not delivered here: %s", keyed.name, KEYLESS)
            learnt = True
        if learnt:
            self._changed.set()

    async def _pause(self) -> None:
        """Wait a little, less if somebody is in a hurry."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await self._hurried.wait()
            await asyncio.sleep(HASTE_SECONDS)
        self._hurried.clear()

    async def _join_group(self, name: str) -> None:
        keyed, asked = KeyedType.of(self._catalogue, name), time()
        try:
            plan = await self.keys.join(keyed, self._sealed[name])
        except AdmissionRefused as error:
            self._refuse(keyed.id, error)
            raise
        self.vault.confirmed[keyed.id] = asked
        welcome = self.vault.refusals.pop(keyed.id, None) is not None
        if self.vault.learn(keyed.id, plan, time() + GRACE) or welcome:
            self._changed.set()

    def _refuse(self, type_id: str, error: AdmissionRefused) -> None:
        """No keys of a type are given to us: then what is not sealed is all we can read of it."""
        plan = self.keys.plan(type_id)
        learnt = plan is not None and self.vault.learn(type_id, plan, time() + GRACE)
        if learnt or self.vault.refusals.get(type_id) != error.problem:
            self.vault.refusals[type_id] = error.problem
            self._changed.set()
