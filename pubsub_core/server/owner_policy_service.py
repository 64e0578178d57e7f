"""Policies of type owners come into force: nothing is decided by an older one once a newer is known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from pubsub_core.broker import Broker


class OwnerPolicyWatch:
    """Has what concerns a type held, and asked anew, whenever its owner says something else."""

    def __init__(
        self, broker: Broker, reauthorize: Callable[[Collection[str] | None], Awaitable[None]]
    ) -> None:
        self._broker = broker
        self._reauthorize = reauthorize
        self._held: list[Collection[str] | None] = []
        self._news = asyncio.Event()
        broker.setting.on_policy.append(self._hold)

    def _hold(self, type_: str) -> None:
        types = {each.id for each in self._broker.setting.catalogue.family(type_)}
        held = None if types & self._broker.triggers.involved() else types
        self._broker.hold(held)
        self._held.append(held)
        self._news.set()

    async def follow(self) -> None:
        """Ask anew, for ever. What could not be asked about stays held, and is asked about again."""
        while True:
            while self._held:
                await self._reauthorize(self._held[0])
                self._broker.release(self._held.pop(0))
            await self._news.wait()
            self._news.clear()
            self._broker.presence.say_types_elsewhere()
