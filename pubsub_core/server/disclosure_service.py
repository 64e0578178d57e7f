"""Disclosures: what waits until the audit stream has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bus.audit import AuditWriter


def recording(audit: AuditWriter) -> Callable[[Callable[[bool], None]], None]:
    """What calls back when an audit stream has everything that it was told."""
    tasks: set[asyncio.Task[None]] = set()

    async def wait(done: Callable[[bool], None]) -> None:
        done(await audit.recorded())

    def kept(done: Callable[[bool], None]) -> None:
        task = asyncio.get_running_loop().create_task(wait(done))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return kept
