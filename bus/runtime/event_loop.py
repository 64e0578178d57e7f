"""The event loop that programs of the fabric run on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TypeVar

Result = TypeVar("Result")


def run_fast(work: Coroutine[object, object, Result]) -> Result:
    """Run to the end on uvloop, or on asyncio's own loop where there is none."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)
