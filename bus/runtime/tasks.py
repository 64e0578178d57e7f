"""Background work of services: it ends with its service, and is started again whenever it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE = 0.1
"""Seconds before failed work is started again, doubled with each failure in a row."""
_LONGEST_PAUSE = 5.0
"""Maximum seconds before failed work is started again."""
_SETTLED_SECONDS = 1.0
"""Seconds after which work that was started again counts as running."""

_log = logging.getLogger("authfabric.tasks")


class Work:
    """One piece of background work, supervised."""

    def __init__(self, run: Callable[[], Coroutine[object, object, None]]) -> None:
        named = run.func if isinstance(run, partial) else run
        self.name: str = getattr(named, "__qualname__", type(named).__name__)
        self.failures = 0
        """How often it has failed."""
        self._run = run
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def down(self) -> bool:
        """Whether it has failed, and has not run for a second since."""
        return bool(self.failures) and monotonic() - self._started < _SETTLED_SECONDS

    @property
    def done(self) -> bool:
        """Whether it has ended, and is not started again."""
        return self._task is not None and self._task.done()

    def begin(self) -> None:
        """Run it in the background from now on."""
        _works.append(self)
        self._task = asyncio.create_task(self.supervise())

    def cancel(self) -> None:
        """Let it end soon, for good."""
        if self in _works:
            _works.remove(self)
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """Cancel it, and return when it has ended."""
        self.cancel()
        if self._task is not None:
            await end_task(self._task)

    async def supervise(self) -> None:
        """Run it; start it again with backoff whenever it fails. Work that returns is done."""
        pause = _FIRST_PAUSE
        while True:
            started = self._started = monotonic()
            try:
                await self._run()
                return
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                # Something that it awaited was cancelled, and not the work: left alone, it would end without a word.
                _log.exception("`%s` was broken off and is started again in %g s", self.name, pause)
            except Exception:
                _log.exception("`%s` failed and is started again in %g s", self.name, pause)
            self.failures += 1
            self._started = float("inf")
            await asyncio.sleep(pause)
            lasted = monotonic() - started > 2 * _LONGEST_PAUSE
            pause = _FIRST_PAUSE if lasted else min(2 * pause, _LONGEST_PAUSE)


def _is_cancelled() -> bool:
    """Whether somebody has cancelled the current task."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


_works: list[Work] = []
"""All background work of this process."""


def background_work() -> list[Work]:
    """All background work of this process, for its health page."""
    return list(_works)


def in_background(stack: AsyncExitStack, run: Callable[[], Coroutine[object, object, None]]) -> Work:
    """Run some work until the stack is closed, and start it again whenever it fails."""
    work = begin_work(run)
    stack.callback(work.cancel)
    return work


def begin_work(run: Callable[[], Coroutine[object, object, None]]) -> Work:
    """Run work until `cancel` or `end`, and start it again whenever it fails."""
    work = Work(run)
    work.begin()
    return work


async def result_within(work: Coroutine[object, object, T], seconds: float) -> T:
    """What the work returns; TimeoutError if that takes longer.

    Unlike `asyncio.wait_for` of Python 3.11 it never takes a cancellation for its own: there, one that comes in the
    same turn of the loop as the result is lost, and whoever waits with a deadline waits for ever.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
        task.add_done_callback(_look_at)


def _look_at(task: asyncio.Future[T]) -> None:
    """Let nobody be told of an error for which nobody waits any more."""
    if not task.cancelled():
        task.exception()


async def end_task(task: asyncio.Task[None]) -> None:
    """Cancel a task until it has ended: what waits inside may take a cancellation for its own and go on."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=0.05)


async def all_or_none(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """The results of work that runs at once. If one fails, the others are cancelled before its error is raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
