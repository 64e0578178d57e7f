"""Watching a decision: a new one whenever it changes, by a release, a role, a revocation, an attribute or the clock.

A release and a revocation are noticed when they arrive, an expiry when it comes, and roles and attributes when the
service that PDPs ask for them says that they have changed; whatever else when it is asked again, every few seconds.
While no PDP answers, what was decided stands for as long as the lease does; then it is a denial.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from time import time
from typing import TYPE_CHECKING

from authz import Decision, Request
from bus.services import hearing_of_entities

if TYPE_CHECKING:
    from pep.enforcer import Enforcer

WATCH_SECONDS = 2.0
"""How often a watched decision is asked for again, if nothing else gives reason to."""
DEADLINE = 1.0
"""How long one question of a watch may take: a right lasts no longer than the lease and this."""
_SOON = 0.01
"""Shortest time between two questions of one watch."""


async def watch_decision(pep: Enforcer, request: Request, every: float) -> AsyncGenerator[Decision]:
    """The decision now, and each that differs from the one before. Raises InvalidRequest."""
    changed = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        pep.on_release.append(changed.set)
        stack.callback(pep.on_release.remove, changed.set)
        if pep.on_bus:
            bus, domain = pep.asker.connection, pep.asker.domain
            await stack.enter_async_context(hearing_of_entities(bus, domain, request, changed.set))
        last: tuple[object, ...] | None = None
        while True:
            changed.clear()
            decision = await pep.check_anew(request, min(every, DEADLINE))
            if _gist(decision) != last:
                last = _gist(decision)
                yield decision
            wait = every if decision.expires is None else min(every, max(decision.expires - time(), _SOON))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await changed.wait()


def _gist(decision: Decision) -> tuple[object, ...]:
    """What of a decision matters to whoever enforces it."""
    return decision.allowed, decision.reason, repr(decision.obligations)
