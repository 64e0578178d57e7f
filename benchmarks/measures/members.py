"""What members cost that do nothing, and how soon a release has reached all of them: for the benchmark of scale."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.harness import Unfinished, progress
from bus.server import NatsServer

PROCESSES = 8
SETTLE_SECONDS = 10.0
"""Time for those who have just started to come to rest."""
IDLE_SECONDS = 20.0
"""Time over which the CPU time of whoever is idle is taken."""
PUSHES = 3


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used, its threads' included."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Fabric:
    """A server and processes that end with it; commands have a home of their own."""

    def __init__(self, server: NatsServer, home: Path, stack: contextlib.AsyncExitStack) -> None:
        self.server = server
        self._stack = stack
        self._home = home
        places = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("STATE", "DATA", "CACHE")}
        self._env: Mapping[str, str] = {**os.environ, **places}

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """A Python process that ends when its input does, or by SIGTERM."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *words, env=self._env, stdin=pipe, stdout=pipe
        )
        self._stack.push_async_callback(process.wait)
        self._stack.callback(_terminate, process)
        return process

    async def pdp(self, number: int) -> int:
        """Start a PDP; returns its process id when it is ready."""
        words = ("--url", self.server.url, "--name", f"pdp-{number}", "--json")
        process = await self.start("authfabric", "pdp", "serve", *words)
        await _until(process, b"}")
        return process.pid

    async def peps(self, count: int, key: str) -> int:
        """Start a process of `count` caching PEPs; returns its process id when all are ready."""
        process = await self.start("benchmarks.processes.pep_fleet", self.server.url, key, str(count))
        await _until(process, b"ready")
        return process.pid

    async def push(self, number: int, *more: str) -> Any:
        """Release a policy; what the command printed."""
        folder = self._home / "policies"
        folder.mkdir(exist_ok=True)
        text = f"- {{uid: p, effect: allow, rules: {{}}, targets: {{subject_id: [alice, user{number}]}}}}"
        (folder / "p.yaml").write_text(text)
        words = ("policy", "push", str(folder), "--url", self.server.url, "--json", *more)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "authfabric", *words, env=self._env, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        return json.loads(said)


def _terminate(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()


async def _until(process: asyncio.subprocess.Process, line: bytes) -> None:
    assert process.stdout is not None
    while (said := await process.stdout.readline()).strip() != line:
        assert said, "the process ended"


async def members(count: int = 1000, pdps: int = 1) -> dict[str, float]:
    """CPU of an idle PDP and of the server beside `count` idle caching PEPs, and the time of `policy push --wait`."""
    async with contextlib.AsyncExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(NatsServer(jetstream=True))
        fabric = Fabric(server, home, stack)
        key = (await fabric.push(0))["signer"]
        deciding = [await fabric.pdp(number) for number in range(pdps)]
        alone = await _idle([*deciding, server.pid])
        progress(f"{count} PEPs connect")
        await asyncio.gather(*(fabric.peps(count // PROCESSES, key) for _ in range(PROCESSES)))
        progress("all of them are connected")
        beside = await _idle([*deciding, server.pid])
        figures = {
            f"idle_pdp_cpu_{count}": max(beside[:-1]),
            "idle_pdp_cpu_alone": max(alone[:-1]),
            f"idle_server_cpu_{count}": beside[-1],
            "idle_server_cpu_alone": alone[-1],
        }
        progress(", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
        progress(f"{PUSHES} pushes")
        try:
            waits = [await _wait(fabric, number, count + pdps) for number in range(1, PUSHES + 1)]
        except AssertionError as error:
            raise Unfinished(error, figures) from None
    return {
        **figures,
        f"wait_s_{count}": min(waits)[0],
        f"wait_s_{count}_longest": max(waits)[0],
        f"wait_lapsed_{count}": max(lapsed for _, lapsed in waits),
    }


async def _idle(pids: list[int]) -> list[float]:
    """CPU seconds per second of each process."""
    await asyncio.sleep(SETTLE_SECONDS)
    before, start = [cpu_seconds(pid) for pid in pids], perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    seconds = perf_counter() - start
    return [(cpu_seconds(pid) - then) / seconds for pid, then in zip(pids, before, strict=True)]


async def _wait(fabric: Fabric, number: int, everyone: int) -> tuple[float, int]:
    """Seconds until a release was complete, and how many members it did not reach before their leases ended."""
    start = perf_counter()
    rollout = (await fabric.push(number, "--wait"))["rollout"]
    seconds = perf_counter() - start
    assert rollout["complete"], rollout["stragglers"]
    applied, lapsed = len(rollout["applied"]), len(rollout["lapsed"])
    assert applied + lapsed == everyone, f"{applied} of {everyone} said so, and {lapsed} leases ended"
    return seconds, lapsed


if __name__ == "__main__":  # any number of members
    print(json.dumps(asyncio.run(members(*map(int, sys.argv[1:]))), indent=2))
