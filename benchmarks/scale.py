"""What large fabrics cost: a PDP with very many scopes, very many PDPs, and very many PEPs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from time import perf_counter

import uvloop

from benchmarks.bus import ReplicaProcess, failures
from benchmarks.harness import at_most, main, progress
from benchmarks.measures.large_push import pushing
from benchmarks.measures.members import members
from benchmarks.processes.replica import policies
from bus.server import NatsServer
from pep import UNVERIFIED, Enforcer, Strategy

PROMISES = {
    "scopes_10000_start_s": at_most(3),
    "hedge_load_100": at_most(1.1),
    "compile_p99_ratio": at_most(2),
    "busy_rtt_ratio": at_most(1.5),
    "idle_pdp_cpu_1000": at_most(0.03),
    "wait_s_1000": at_most(3),
}
SCOPES, STARTS = 10_000, 3
PDPS, PROCESSES = 100, 4
QUESTIONS, WARM_UP = 10_000, 2_000


async def starting(url: str) -> dict[str, float]:
    """Seconds from the start of a `pdp serve` process until it says that it is ready: the best of several."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "policies.json").write_text(policies())
        rounds = [(await _start(url, folder, 1), await _start(url, folder, SCOPES)) for _ in range(STARTS)]
    one, many = map(min, zip(*rounds, strict=True))
    return {"scopes_10000_start_s": many, "scopes_1_start_s": one}


async def _start(url: str, folder: str, count: int) -> float:
    scopes = [word for number in range(count) for word in ("--serve", f"object:/tenants/{number}")]
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [
        sys.executable,
        "-m",
        "authfabric",
        "pdp",
        "serve",
        "--policies",
        folder,
        "--url",
        url,
        "--json",
    ]
    start = perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command, *scopes, env=compiled, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        said = b""
        while not said.endswith(b"\n}\n"):
            line = await process.stdout.readline()
            assert line, f"the PDP ended: {said!r}"
            said += line
        seconds = perf_counter() - start
        assert len(json.loads(said)["serves"]) == count
    finally:
        process.terminate()
        await process.wait()
    return seconds


async def hedging(url: str) -> dict[str, float]:
    """Decisions for each question with a hundred replicas, of which none is slow."""
    async with contextlib.AsyncExitStack() as stack:
        fleet = [
            await ReplicaProcess.start(url, "domain:default", count=PDPS // PROCESSES)
            for _ in range(PROCESSES)
        ]
        for process in fleet:
            stack.push_async_callback(process.stop)
        pep = await stack.enter_async_context(
            Enforcer.connect(url, strategy=Strategy.HEDGE, deadline=5.0, trust=UNVERIFIED)
        )
        await failures(pep, WARM_UP)  # learn how long answers take
        before = sum([await process.evaluations() for process in fleet])
        failed = await failures(pep, QUESTIONS)
        after = sum([await process.evaluations() for process in fleet])
    return {"hedge_load_100": (after - before) / QUESTIONS, "hedge_failures_100": failed}


async def _on_a_server(part: Callable[[str], Awaitable[dict[str, float]]]) -> dict[str, float]:
    async with NatsServer() as server:
        return await part(server.url)


PARTS: dict[str, tuple[str, Callable[[], Coroutine[None, None, dict[str, float]]]]] = {
    "scopes": (f"starting a PDP with {SCOPES:,} scopes, {STARTS} times", partial(_on_a_server, starting)),
    "hedging": (f"asking {PDPS} PDPs", partial(_on_a_server, hedging)),
    "push": ("pushing 100,000 policies under load", pushing),
    "members": ("1,000 PEPs that do nothing, and three pushes to them", members),
}
PART_SECONDS = 240.0
"""Time after which a part is given up, and the next one begun."""


def measure(name: str) -> dict[str, float]:
    """The figures of one part. Raises TimeoutError where it does not end."""
    about, part = PARTS[name]
    progress(about)
    figures = uvloop.run(_within(part))
    progress(", ".join(f"{figure} {value:.4g}" for figure, value in figures.items()))
    return figures


async def _within(part: Callable[[], Coroutine[None, None, dict[str, float]]]) -> dict[str, float]:
    async with asyncio.timeout(PART_SECONDS):
        return await part()


def run() -> dict[str, float]:
    """A PDP's start with 10,000 scopes, how many of 100 PDPs decide one question, pushes, and what 1,000 PEPs cost."""
    return {figure: value for name in PARTS for figure, value in measure(name).items()}


if __name__ == "__main__":
    main(run, parts={name: partial(measure, name) for name in PARTS}, one_by_one=True)
