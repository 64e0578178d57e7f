"""Answering requests with bounded concurrency and a bounded queue; what exceeds both is refused as busy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from bus.errors import NotConnected
from bus.nats import Connection
from bus.wire import is_inbox

_log = logging.getLogger("authfabric.bus")


def responding(
    bus: Connection,
    subjects: Iterable[str],
    answer: Callable[[bytes], Awaitable[bytes]],
    *,
    busy: bytes,
    queue: str = "",
    at_once: int = 4,
    waiting: int = 64,
) -> AbstractAsyncContextManager[None]:
    """Answer what is asked on the subjects, for the length of the block; `busy` is for those too many.

    Whatever `answer` does not catch is logged, and not answered.
    """

    async def by_payload(subject: str, payload: bytes) -> bytes:
        return await answer(payload)

    limits = Limits(at_once, waiting, at_once + waiting)
    return responding_by_subject(bus, subjects, by_payload, limits, busy=busy, queue=queue)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many questions are dealt with."""

    at_once: int = 4
    waiting: int = 64
    """Maximum questions that wait, besides those at once."""
    each: int = 8
    """Maximum questions of one subject among them: whoever has a subject of its own takes no room from others."""


@contextlib.asynccontextmanager
async def responding_by_subject(
    bus: Connection,
    subjects: Iterable[str],
    answer: Callable[[str, bytes], Awaitable[bytes]],
    limits: Limits,
    *,
    busy: bytes,
    queue: str = "",
) -> AsyncIterator[None]:
    """The same for an answer that depends on the subject, too."""
    turns = asyncio.Semaphore(limits.at_once)
    tasks: set[asyncio.Task[None]] = set()
    asked = Counter[str]()

    async def work(subject: str, payload: bytes, reply: str) -> None:
        async with turns:
            try:
                with contextlib.suppress(NotConnected):  # the asker cannot be reached any more
                    bus.send(reply, await answer(subject, payload))
            except Exception:
                _log.exception("a question could not be answered")

    def forget(subject: str, task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        asked[subject] -= 1
        if not asked[subject]:
            del asked[subject]

    def hear(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if not is_inbox(reply):
            return
        if len(tasks) >= limits.at_once + limits.waiting or asked[subject] >= limits.each:
            bus.send(reply, busy)
            return
        task = asyncio.get_running_loop().create_task(work(subject, payload, reply))
        tasks.add(task)
        asked[subject] += 1
        task.add_done_callback(partial(forget, subject))

    subscriptions = [await bus.listen(each, hear, queue) for each in subjects]
    try:
        yield
    finally:
        with contextlib.suppress(NotConnected):
            await bus.cancel(subscriptions)
        for task in tasks:
            task.cancel()
