"""A service that did not run for a while takes no PDP for dead that was there."""

from __future__ import annotations

import asyncio
import signal
import sys

from authfabric.processes.launcher import fabric
from bus.runtime import signal_process
from tests.waiting import PATIENCE, eventually, is_stopped

STILL = 6.0
"""Seconds: longer than PDPs are taken to be there of whom nothing is heard, and than the deadline of a question."""
SERVICE = """
import os
import signal
import sys
import threading
import uvloop
from pep import Enforcer

async def ask(url, root):
    async with Enforcer.connect(url, trust=[root], recycling=None, deadline=1.0) as pep:
        reason = stopping = None
        while True:
            if reason == "timeout" and not stopping:  # stop while the next question waits, and the loop
                stopping = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGSTOP))
                stopping.start()
            reason = (await pep.check("alice", "/sales/q1", "read")).reason
            print(reason, flush=True)

uvloop.run(ask(*sys.argv[1:]))
"""


async def test_a_service_that_was_frozen_for_long_is_answered_again_and_denies_nothing_for_want_of_a_pdp():
    async with fabric(1) as running:
        words = [running.url, str(running.root.public)]
        service = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVICE, *words, stdout=asyncio.subprocess.PIPE
        )
        assert service.stdout is not None

        async def read_until(reason: str) -> list[str]:
            assert service.stdout is not None
            reasons = [""]
            async with asyncio.timeout(PATIENCE):
                while reasons[-1] != reason:
                    reasons.append((await service.stdout.readline()).decode().strip())
                    assert reasons[-1], "the service has ended"
            return reasons[1:]

        try:
            await read_until("policy")
            running.replicas["pdp-1"].freeze()
            await read_until("timeout")
            await eventually(lambda: is_stopped(service.pid))
            running.replicas["pdp-1"].thaw()
            await asyncio.sleep(STILL)
            signal_process(service.pid, signal.SIGCONT)
            assert set(await read_until("policy")) <= {"timeout", "policy"}
        finally:
            service.kill()
            await service.wait()
