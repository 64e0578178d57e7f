"""Answering requests with bounded concurrency and a bounded queue; what exceeds both is refused as busy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from bus.connection import Connection
from bus.errors import NotConnected
from bus.subjects import is_inbox

_log = logging.getLogger("authfabric.bus")


@contextlib.asynccontextmanager
async def responding(
    bus: Connection,
    subjects: Iterable[str],
    answer: Callable[[bytes], Awaitable[bytes]],
    *,
    busy: bytes,
    queue: str = "",
    at_once: int = 4,
    waiting: int = 64,
) -> AsyncIterator[None]:
    """Answer what is asked on the subjects, for the length of the block; `busy` is for those too many.

    Whatever `answer` does not catch is logged, and not answered.
    """
    turns = asyncio.Semaphore(at_once)
    tasks: set[asyncio.Task[None]] = set()

    async def work(payload: bytes, reply: str) -> None:
        async with turns:
            try:
                with contextlib.suppress(NotConnected):  # the asker cannot be reached any more
                    bus.send(reply, await answer(payload))
            except Exception:
                _log.exception("a question could not be answered")

    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not is_inbox(reply):
            return
        if len(tasks) >= at_once + waiting:
            bus.send(reply, busy)
            return
        task = asyncio.get_running_loop().create_task(work(payload, reply))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    subscriptions = [await bus.listen(each, hear, queue) for each in subjects]
    try:
        yield
    finally:
        with contextlib.suppress(NotConnected):
            await bus.cancel(subscriptions)
        for task in tasks:
            task.cancel()
