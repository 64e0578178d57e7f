"""The event loop that programs of the fabric run on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from time import monotonic
from typing import TypeVar

Result = TypeVar("Result")

TURN_SECONDS = 0.002
"""Seconds, about, for which one piece of work may occupy the event loop."""


def run_fast(work: Coroutine[object, object, Result]) -> Result:
    """Run to the end on uvloop, or on asyncio's own loop where there is none."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


class Turns:
    """Long work in short turns: between two of its steps `end` lets others go first, if its turn is over."""

    def __init__(self) -> None:
        self._until = monotonic() + TURN_SECONDS

    async def end(self) -> None:
        """Go on, at once or when others have had their turns."""
        if monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = monotonic() + TURN_SECONDS
