"""A PostgreSQL server that a test run has started ends with it, however the run ends."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.waiting import eventually

RUN = """
from tests.pubsub_core.history.databases import serving

with serving() as server:
    print(server.get_pid(), server.pgdata, flush=True)
    input()
"""


def running(pid: str) -> bool:
    return Path("/proc", pid).exists()


async def test_a_run_that_is_killed_leaves_neither_server_nor_files():
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", RUN, stdin=pipe, stdout=pipe)
    assert run.stdout is not None
    pid, folder = (await run.stdout.readline()).decode().split()
    assert running(pid)
    run.kill()
    await run.communicate()
    await eventually(lambda: not running(pid) and not Path(folder).exists())
