"""What a decision over the fabric costs, against plain nats-py request/reply between the same processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter

import nats
import uvloop

from bus.server import NatsServer
from pep.enforcer import Enforcer

ROUNDS = 5
IN_FLIGHT = 256
AREAS = ["sales", "hr", "legal", "ops"]
OBJECTS = [f"/{area}/folder{n % 25}/document{n}" for n in range(250) for area in AREAS]
PAYLOAD = b"x" * 64


class Process:
    """A replica process and its command pipe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def evaluations(self) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b"count\n")
        return int(await self._process.stdout.readline())

    async def stop(self) -> None:
        assert self._process.stdin
        os.kill(self.pid, signal.SIGCONT)
        self._process.stdin.close()
        await self._process.wait()


@contextlib.asynccontextmanager
async def replicas(url: str, count: int, *scopes: str) -> AsyncIterator[list[Process]]:
    started = []
    for _ in range(count):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.replica", url, *scopes,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
        )  # fmt: skip
        assert process.stdout
        assert await process.stdout.readline() == b"ready\n"
        started.append(Process(process))
    try:
        yield started
    finally:
        for running in started:
            await running.stop()


async def p50(call: Callable[[], Awaitable[object]], count: int) -> float:
    times = []
    for _ in range(count):
        start = perf_counter()
        await call()
        times.append(perf_counter() - start)
    return statistics.median(times)


async def rate(call: Callable[[int], Awaitable[object]], count: int) -> float:
    """Calls per second with IN_FLIGHT of them at a time."""

    async def worker(number: int) -> None:
        for n in range(number, count, IN_FLIGHT):
            await call(n)

    start = perf_counter()
    await asyncio.gather(*map(worker, range(IN_FLIGHT)))
    return count / (perf_counter() - start)


async def against_raw(url: str) -> dict[str, float]:
    client = await nats.connect(url)
    async with replicas(url, 1, *(f"prefix:/{area}" for area in AREAS)), Enforcer.connect(url) as pep:
        await pep.check("alice", OBJECTS[0], "read")
        raw_rtt, fabric_rtt, raw_rate, fabric_rate = [], [], [], []
        for _ in range(ROUNDS):
            raw_rtt.append(await p50(lambda: client.request("raw", PAYLOAD), 1000))
            fabric_rtt.append(await p50(lambda: pep.check("alice", OBJECTS[7], "read"), 1000))
        for _ in range(ROUNDS):
            raw_rate.append(await rate(lambda n: client.request("raw", PAYLOAD, timeout=5), 20_000))
            fabric_rate.append(await rate(lambda n: pep.check("alice", OBJECTS[n % 1000], "read"), 100_000))
    await client.close()
    return {
        "raw_rtt_us": min(raw_rtt) * 1e6,
        "fabric_rtt_us": min(fabric_rtt) * 1e6,
        "rtt_ratio": min(fabric_rtt) / min(raw_rtt),
        "raw_per_s": max(raw_rate),
        "fabric_per_s": max(fabric_rate),
        "throughput_ratio": max(fabric_rate) / max(raw_rate),
    }


async def run() -> dict[str, float]:
    async with NatsServer() as server:
        return await against_raw(server.url)


if __name__ == "__main__":
    print(uvloop.run(run()))
