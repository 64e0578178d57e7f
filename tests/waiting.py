"""Waiting for what must happen, without guessing how long it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(happened: Callable[[], object], seconds: float = 60.0) -> None:
    """Return as soon as it has happened; fail if it has not after that many seconds."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - what happens elsewhere sets no event here
            await asyncio.sleep(0.002)


async def once_it_works(work: Callable[[], Awaitable[T]], error: type[Exception], seconds: float = 60.0) -> T:
    """What comes of some work, which is tried again as long as it fails in this way."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await work()
            except error:
                await asyncio.sleep(0.02)
