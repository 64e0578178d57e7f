"""What a push of very many policies costs those who ask meanwhile.

Two replicas, each a `pdp serve` process that follows releases and shares its cache with the other, a NATS server, and
whoever asks and pushes, each a process of its own, on one machine. One PEP asks at a steady rate, each question about a
project chosen at random; nothing is cached. `before` is a while without a push. `during` begins when the push has
checked its policies and waits for the replicas to compile them, and ends when every replica has applied the release.
What the pusher does before that (it reads and compares 100,000 policies) is its own work, wherever it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from authfabric.processes import Fabric, fabric
from authz import Request
from benchmarks.harness import progress
from benchmarks.workloads.policies import projects
from pep import Enforcer

POLICIES = 100_000
FEW = 500
"""Policies in force before the push."""
RATE = 250
"""Questions a second."""
BEFORE_SECONDS = 20.0
REPLICAS = 2
SAMPLE = 200
"""Questions of which it is seen that they are answered rightly."""
_START = "compiled by"
"""How what `policy push` says begins once it waits for replicas that compile."""


class Load:
    """Asks at a steady rate, and notes how long each answer took and when it came."""

    def __init__(self, pep: Enforcer, requests: list[Request]) -> None:
        self._pep = pep
        self._requests = requests
        self.taken: list[tuple[float, float]] = []
        """When each question was due, and the seconds until it was answered."""
        self.failed = 0
        self.epochs: set[int] = set()

    async def run(self) -> None:
        start, number = perf_counter(), 0
        async with asyncio.TaskGroup() as group:
            while True:
                due = start + number / RATE
                await asyncio.sleep(max(0.0, due - perf_counter()))
                group.create_task(self._ask(self._requests[number % len(self._requests)], due))
                number += 1

    async def _ask(self, request: Request, due: float) -> None:
        decision = await self._pep.check(request)
        self.taken.append((due, perf_counter() - due))
        self.failed += not decision.decided
        self.epochs.add(decision.epoch)

    def between(self, start: float, end: float) -> tuple[float, float]:
        """The median and the 99th percentile of the questions that were due in this time."""
        taken = [seconds for due, seconds in self.taken if start <= due < end]
        return median(taken), quantiles(taken, n=100)[98]


def permitted(request: Request, count: int) -> bool:
    """What so many policies of projects say of a request, read off them by hand."""
    project, subject = request.object.id.split("/")[2], request.subject
    number, action = project[1:], request.action.id
    if int(number) >= count // 5:
        return False
    if action != "read" and request.object.attributes["status"] == "archived":
        return False
    member = subject.attributes["dept"] == f"d{number}"
    public = request.object.attributes["visibility"] == "public"
    return (
        subject.id == f"owner{number}"
        or (action == "read" and (member or public))
        or (action == "write" and member and int(str(subject.attributes["level"])) >= 3)
    )


async def agree(pep: Enforcer, requests: list[Request], count: int) -> None:
    """See that questions are answered as the policies say, before anything is timed."""
    for request in requests[:SAMPLE]:
        decision = await pep.check(request)
        assert decision.allowed == permitted(request, count), f"{request}: {decision}"


def write(folder: Path, count: int) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "policies.json").write_text(json.dumps(projects(count).policies))
    return folder


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Fabric]:
    async with fabric(0, policies=None, jetstream=True, keys=folder / "keys") as running:
        _, code = await push(running, write(folder / "few", FEW))
        assert code == 0, "the first push failed"
        extra = ["--cache", str(folder / "cache" / "default")]
        for number in range(REPLICAS):
            await running.add(f"pdp-{number}", extra=extra)
        yield running


async def push(running: Fabric, policies: Path, *words: str) -> tuple[float, int]:
    """Push by the command; returns when it began to wait for replicas, and its exit code."""
    command = [sys.executable, "-m", "authfabric", "policy", "push", str(policies), *words]
    process = await asyncio.create_subprocess_exec(
        *command, "--url", running.url,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    began = 0.0
    try:
        async for line in process.stderr:
            if line.startswith(_START.encode()) and not began:
                began = perf_counter()
                progress("the replicas compile")
    except BaseException:
        process.terminate()
        raise
    finally:
        code = await process.wait()
    return began, code


async def pushing() -> dict[str, float]:
    """The median and 99th percentile of answers during a push of 100,000 policies, each divided by that before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        requests = projects(POLICIES, 20_000).requests
        many = write(folder / "many", POLICIES)
        async with (
            serving(folder) as running,
            Enforcer.connect(running.url, deadline=10.0, trust=[running.root.public], recycling=None) as pep,
        ):
            await agree(pep, requests, FEW)
            await agree(pep, projects(FEW, SAMPLE).requests, FEW)
            load = Load(pep, requests)
            asking = asyncio.create_task(load.run())
            await asyncio.sleep(2)  # the first answers are slower
            progress("asking, without a push")
            quiet = perf_counter()
            await asyncio.sleep(BEFORE_SECONDS)
            calm = perf_counter()
            progress(f"pushing {POLICIES:,} policies")
            began, code = await push(running, many, "--wait", "--timeout", "120")
            done = perf_counter()
            progress(f"applied, {done - began:.1f} s after the replicas began to compile")
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
            await agree(pep, requests, POLICIES)
    slow = sorted(((took, due - began) for due, took in load.taken if began <= due < done), reverse=True)
    progress("slowest: " + ", ".join(f"{took * 1e3:.0f} ms after {at:.1f} s" for took, at in slow[:5]))
    assert code == 0, "the push was not complete"
    assert began, "nobody compiled"
    before, during = load.between(quiet, calm), load.between(began, done)
    return {
        "compile_p99_ratio": during[1] / before[1],
        "busy_rtt_ratio": during[0] / before[0],
        "compile_p99_ms": during[1] * 1e3,
        "busy_rtt_ms": during[0] * 1e3,
        "push_failures": load.failed,
        "push_s": done - began,
    }
