"""Compiling bundles beside what is running: small ones in a thread, large ones in a process of their own.

One is compiled at a time. What was compiled last is kept until something else is wanted, so that it can be prepared.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import zlib
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from authz import AuthFabricError
from pdp.bundle import Bundle, PackedStore, PolicySet
from pdp.releases.packing_process import Result
from pdp.releases.progress import logging_progress

LARGE_BYTES = 128 * 1024
"""Bytes of text above which a bundle is compiled in a process of its own."""

NICENESS = 10
"""Niceness of the process that compiles: its priority is that much lower."""

T = TypeVar("T")
_log = logging.getLogger("authfabric.pdp")


class CompilingFailed(AuthFabricError):
    """Policies that cannot be compiled."""


def is_large(packed: bytes) -> bool:
    """Whether a packed bundle is worth a process of its own."""
    try:
        return len(zlib.decompressobj().decompress(packed, LARGE_BYTES + 1)) > LARGE_BYTES
    except zlib.error:
        return False


class Compiler(Generic[T]):
    """Builds a decider for the policies of an epoch. `build` is called in a thread."""

    def __init__(self, store: PackedStore, build: Callable[[PolicySet, int], T]) -> None:
        self._store = store
        self._build = build
        self._wanted = ("", 0)
        self._task: asyncio.Task[T] | None = None

    def start(self, bundle: str, content: bytes, epoch: int) -> asyncio.Task[T]:
        """Begin with a bundle, given by its hash and packed, unless it is being compiled or was; forget any other."""
        task = self._task
        failed = task is not None and task.done() and (task.cancelled() or task.exception() is not None)
        if task is None or failed or self._wanted != (bundle, epoch):
            if task is not None:
                task.cancel()
            self._wanted = (bundle, epoch)
            task = self._task = asyncio.create_task(self._make(bundle, content, epoch))
            task.add_done_callback(_look_at)
        return task

    async def make(self, bundle: str, content: bytes, epoch: int) -> T:
        """The decider for a bundle. Raises whatever is wrong with it."""
        task = self.start(bundle, content, epoch)
        await asyncio.wait([task])
        if task.cancelled():
            raise CompilingFailed("another bundle was to be compiled first")
        return task.result()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _make(self, bundle: str, content: bytes, epoch: int) -> T:
        with logging_progress(f"compiling the policies of bundle {bundle[:12]}"):
            policies = await self._policies(bundle, content)
            return await asyncio.to_thread(self._build, policies, epoch)

    async def _policies(self, bundle: str, content: bytes) -> PolicySet:
        if is_large(content):
            packed = await asyncio.to_thread(self._store.load, bundle)
            if packed is None:
                await self._pack(bundle, content)
                packed = await asyncio.to_thread(self._store.load, bundle)
            if packed is not None:
                return await asyncio.to_thread(PolicySet.open, packed)
        return await asyncio.to_thread(lambda: PolicySet.read(Bundle.unpack(content, bundle)))

    async def _pack(self, bundle: str, content: bytes) -> None:
        """Have another process pack the bundle. Raises CompilingFailed."""
        command = [sys.executable, "-m", "pdp.releases.packing_process", str(self._store.beside), bundle]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        with contextlib.suppress(OSError):  # before it has imported anything
            os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        try:
            said, _ = await process.communicate(content)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        try:
            result = msgspec.json.decode(said, type=Result)
        except msgspec.DecodeError:
            raise CompilingFailed(f"the process that compiles ended with {process.returncode}") from None
        if result.problem:
            raise CompilingFailed(result.problem)
        if result.disk:  # a full disk must not keep a revocation from coming into force
            _log.warning("policies are compiled in the serving process: %s", result.disk)


def _look_at(task: asyncio.Task[T]) -> None:
    """Whoever waits for the task is told what went wrong; if nobody does, nothing is to be said."""
    if not task.cancelled():
        task.exception()
