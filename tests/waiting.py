"""Waiting for what must happen, without guessing how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def eventually(happened: Callable[[], object], seconds: float = 20.0) -> None:
    """Return as soon as it has happened; fail if it has not after that many seconds."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - what happens elsewhere sets no event here
            await asyncio.sleep(0.002)
