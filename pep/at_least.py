"""Read-your-writes consistency: asking until the answer rests on policies of at least a given epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from authz import Decision, Reason, Request
from pep.strategy import RETRY_SECONDS

Ask = Callable[[Request, float], Awaitable[Decision]]
"""Asks within so many seconds."""


async def ask_at_least(ask: Ask, request: Request, seconds: float, at_least: int) -> Decision:
    """Ask again and again: PDPs take a moment to change over. A denial if none has by then."""
    deadline, wait = monotonic() + seconds, RETRY_SECONDS
    while (left := deadline - monotonic()) > 0:
        decision = await ask(request, left)
        if not decision.decided or decision.epoch >= at_least:
            return decision
        await asyncio.sleep(min(wait, max(0.0, deadline - monotonic())))
        wait *= 2
    problem = (
        f"no PDP answered for `{request.object.id}` by epoch {at_least} or a newer one within {seconds:g} s"
    )
    return Decision(False, Reason.TIMEOUT, detail=problem)
