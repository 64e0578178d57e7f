"""Background tasks of services: each ends with its service, and one that fails says so in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack

_log = logging.getLogger("authfabric.tasks")


def in_background(stack: AsyncExitStack, work: Coroutine[object, object, None]) -> None:
    """Run some work until the stack is closed. Nobody awaits it, so an error that ends it is logged."""
    task = asyncio.create_task(work)
    task.add_done_callback(_report)
    stack.callback(task.cancel)


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended: what waits inside may take a cancellation for its own and go on."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.05)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("background work of a service ended: %s", error, exc_info=error)
