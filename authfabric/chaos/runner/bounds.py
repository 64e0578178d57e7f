"""Waiting with a bound: a run that cannot go on ends, and says what did not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from authz import AuthFabricError

T = TypeVar("T")


class NeverEnded(AuthFabricError):
    """A step of a run took longer than it may."""


async def bounded(what: str, work: Coroutine[object, object, T], seconds: float) -> T:
    """Do a step of a run. Raises NeverEnded, which names it and where it waits, if that takes longer."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise NeverEnded(f"{what} did not end within {seconds:g} s: it waits in {_place(work)}")
        return task.result()
    finally:
        task.cancel()


def _place(work: object) -> str:
    """The calls within which a coroutine waits, from the outermost on."""
    calls = []
    while (frame := getattr(work, "cr_frame", None)) is not None:
        calls.append(f"{frame.f_code.co_qualname} (line {frame.f_lineno})")
        work = getattr(work, "cr_await", None)
    return ", ".join(calls) or "nothing"
