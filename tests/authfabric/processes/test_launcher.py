"""A fabric on this machine: who starts it waits while there is progress, and what dies is started anew."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from authfabric.processes.launcher import ReplicaProcess, fabric
from bus.runtime import ProcessFailed
from pep import AccessDenied, Enforcer
from tests.waiting import eventually, once_it_works

SLOW = """
import sys, time
for _ in range(60):
    print("compiling", file=sys.stderr, flush=True)
    time.sleep(0.05)
print('{"url": "there"\\n}', flush=True)
time.sleep(60)
"""


async def test_a_process_is_waited_for_as_long_as_it_says_something():
    replica = await ReplicaProcess.run("slow", [sys.executable, "-c", SLOW], seconds=2.5)
    assert replica.ready.url == "there"
    await replica.kill()


async def test_a_process_that_says_nothing_is_given_up():
    silent = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(ProcessFailed, match="`silent` did not start: it said nothing"):
        await ReplicaProcess.run("silent", silent, seconds=0.2)


async def test_what_dies_is_started_anew_and_said(tmp_path):
    said: list[str] = []
    async with fabric(1) as running:
        keeping = asyncio.create_task(running.keep_running((), said.append))
        async with Enforcer.connect(running.url, trust=[running.root.public], deadline=10.0) as pep:
            os.kill(running.replicas["pdp-1"].pid, signal.SIGKILL)
            await eventually(lambda: len(said) == 2)
            assert said[0].startswith("`pdp-1` has ended by SIGKILL; it is started anew in")
            assert said[1] == f"`pdp-1` runs again (pid {running.replicas['pdp-1'].pid})"
            assert running.server is not None
            os.kill(running.server.pid, signal.SIGKILL)
            await eventually(lambda: len(said) == 4)
            assert said[2].startswith("the NATS server has ended; it is started anew in")
            assert said[3] == f"the NATS server runs again (pid {running.server.pid})"
            await once_it_works(lambda: pep.require("alice", "/sales/q1", "read"), AccessDenied)
        keeping.cancel()
