"""Waiting for what must happen, without guessing how long it takes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = float(os.environ.get("AUTHFABRIC_TEST_PATIENCE", "60"))
"""Maximum seconds that anything may take on a slow machine; only what is broken takes them."""


async def eventually(happened: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Return as soon as it has happened; fail if it has not after that many seconds."""
    async with asyncio.timeout(seconds):
        while not happened():  # noqa: ASYNC110 - what happens elsewhere sets no event here
            await asyncio.sleep(0.002)


async def once_it_works(
    work: Callable[[], Awaitable[T]],
    error: type[Exception] | tuple[type[Exception], ...],
    seconds: float = PATIENCE,
) -> T:
    """What comes of some work, which is tried again as long as it fails in this way, and the seconds last."""
    until = monotonic() + seconds
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await work()
            except error:
                if monotonic() >= until:  # `asyncio.wait_for` may have swallowed that the time is over
                    raise
                await asyncio.sleep(0.02)


async def printed_document(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """The JSON document that a process prints when it serves; fail if it ends instead."""
    assert process.stdout is not None
    lines = []
    async with asyncio.timeout(PATIENCE):
        while (line := await process.stdout.readline()) != b"}\n":
            assert line, f"it has ended with {await process.wait()}"
            lines.append(line)
    document: dict[str, Any] = json.loads(b"".join([*lines, b"}"]))
    return document


def is_stopped(pid: int) -> bool:
    """Whether a process that was sent SIGSTOP has stopped: until then some of its threads may go on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
