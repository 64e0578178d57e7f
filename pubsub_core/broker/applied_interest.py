"""Applied interest: by which version of what is wanted here the stream is read, and who waits for a later one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection

from pubsub_core.delivery import SubscriptionTable


class AppliedInterest:
    """Knows since when what is wanted here comes here."""

    def __init__(self, subscriptions: SubscriptionTable, announce: Callable[[Collection[str]], None]) -> None:
        """`announce` tells other brokers which types are wanted."""
        self._subscriptions = subscriptions
        self._announce = announce
        self.version: float = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def settled(self, seconds: float | None = None) -> None:
        """Return when the stream is read by what is wanted now, so that what is published from then on comes here."""
        self._subscriptions.wants()
        if self.version < self._subscriptions.version:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append((self._subscriptions.version, waiting))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiting

    def apply(self, version: float) -> None:
        """The stream is read by what was wanted in this version: other brokers may know."""
        self.version = version
        for wanted, waiting in self._waiting:
            if wanted <= version and not waiting.done():
                waiting.set_result(None)
        self._waiting = [each for each in self._waiting if not each[1].done()]
        wants = self._subscriptions.wants()
        if version >= self._subscriptions.version:
            self._announce(wants)
