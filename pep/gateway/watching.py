"""Decisions as server-sent events: each that differs from the one before."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from authz import Decision, Request
from pep.enforcer import Enforcer
from pep.gateway.callers import Identified
from pep.gateway.errors import Refused

MAX_WATCHES = 1000
"""Maximum watches at once."""
MAX_EACH = 100
"""Maximum watches of one caller, or of one subject whose token asks about itself only."""
MAX_SECONDS = 300.0
"""How long one watch lasts: then the client asks again, and shows anew who it is."""
ALIVE_SECONDS = 15.0
"""How often something is sent, so that a connection that is gone is noticed."""

_encode = msgspec.json.Encoder().encode


class Watches:
    """The watches of all clients."""

    def __init__(self, pep: Enforcer) -> None:
        self._pep = pep
        self._open = Counter[tuple[str, str | None]]()

    async def events(self, request: Request, caller: Identified) -> AsyncGenerator[bytes]:
        """The events of one watch. Raises Refused if there are too many, before the first one."""
        who = caller.caller.name, caller.subject
        if self._open[who] >= MAX_EACH:
            raise Refused(503, f"you have {MAX_EACH} watches already")
        if self._open.total() >= MAX_WATCHES:
            raise Refused(503, f"there are {MAX_WATCHES} watches already")
        self._open[who] += 1
        try:
            async with aclosing(self._decisions(request)) as decisions:
                async for decision in decisions:
                    yield b": alive\n\n" if decision is None else _event(decision)
        finally:
            self._open[who] -= 1
            self._open += Counter()  # forget who has none

    async def _decisions(self, request: Request) -> AsyncGenerator[Decision | None]:
        """The decisions; None when it is time to say that the watch is alive."""
        ending = asyncio.get_running_loop().time() + MAX_SECONDS
        async with aclosing(self._pep.watch(request)) as watched:
            upcoming = asyncio.ensure_future(anext(watched))
            try:
                while asyncio.get_running_loop().time() < ending:
                    done, _ = await asyncio.wait([upcoming], timeout=ALIVE_SECONDS)
                    if not done:
                        yield None
                        continue
                    yield upcoming.result()
                    upcoming = asyncio.ensure_future(anext(watched))
            finally:
                upcoming.cancel()
                await asyncio.wait([upcoming])


def _event(decision: Decision) -> bytes:
    said: dict[str, Any] = {"decision": decision.allowed}
    if not decision.decided:
        said["context"] = {"reason": decision.reason}
    elif decision.obligations:
        said["context"] = {"obligations": decision.obligations}
    return b"event: decision\ndata: " + _encode(said) + b"\n\n"
