"""What a decision over the fabric costs, against plain nats-py request/reply between the same processes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from time import perf_counter
from typing import TypeVar

import nats
import uvloop
from nats.aio.client import Client

from benchmarks.harness import at_least, at_most, main
from bus.server import NatsServer
from pep import UNVERIFIED, Enforcer, Strategy

PROMISES = {
    "rtt_ratio": at_most(1.1),
    "throughput_ratio": at_least(6),
    "hedge_load_ratio": at_most(1.1),
    "frozen_failures": at_most(0),
    "subscriptions_ratio": at_most(1.2),
}
ROUNDS = 7
IN_FLIGHT = 256
AREAS = ["sales", "hr", "legal", "ops"]
OBJECTS = [f"/{area}/folder{n % 25}/document{n}" for n in range(250) for area in AREAS]
PAYLOAD = b"x" * 64

T = TypeVar("T")


class ReplicaProcess:
    """A `benchmarks.processes.replica` process, of one replica or several, and its command pipe."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._commands = process.stdin
        self._replies = process.stdout

    @classmethod
    async def start(cls, url: str, *scopes: str, root: bytes = b"", count: int = 1) -> ReplicaProcess:
        replica = cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "benchmarks.processes.replica",
                url,
                root.hex(),
                str(count),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        )
        replica._commands.write("\n".join([*scopes, "", ""]).encode())
        assert await replica._replies.readline() == b"ready\n"
        return replica

    @property
    def pid(self) -> int:
        return self._process.pid

    async def evaluations(self) -> int:
        self._commands.write(b"count\n")
        return int(await self._replies.readline())

    async def stop(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self._commands.close()
        await self._process.wait()


@contextlib.asynccontextmanager
async def replicas(
    url: str, count: int, *scopes: str, root: bytes = b""
) -> AsyncIterator[list[ReplicaProcess]]:
    """With the seed of a root's key, answers are authenticated for those who want that."""
    started = [await ReplicaProcess.start(url, *scopes, root=root) for _ in range(count)]
    try:
        yield started
    finally:
        for replica in started:
            await replica.stop()


async def median(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Seconds of the median call, one at a time."""
    return (await medians([call], count))[0]


async def seconds(call: Callable[[], Awaitable[object]]) -> float:
    """How long one call takes."""
    start = perf_counter()
    await call()
    return perf_counter() - start


async def medians(calls: Sequence[Callable[[], Awaitable[object]]], count: int) -> list[float]:
    """Seconds of the median call of each, asked one by one in turn, another first each time.

    Rivals that are timed in blocks are timed at different moments: on a machine that is busy now and then, the best
    block of one against the best block of the other tells the machine's moods, not what either costs.
    """
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(count):
        for number in range(len(calls)):
            which = (turn + number) % len(calls)
            times[which].append(await seconds(calls[which]))
    return [statistics.median(each) for each in times]


async def rate(
    call: Callable[[int], Awaitable[T]],
    count: int,
    in_flight: int = IN_FLIGHT,
    right: Callable[[T], bool] = lambda _: True,
) -> float:
    """Calls per second with a given number under way at any time; the last answers must be right."""

    async def worker(first: int) -> T:
        for number in range(first, count, in_flight):
            answer = await call(number)
        return answer

    start = perf_counter()
    answers = await asyncio.gather(*map(worker, range(in_flight)))
    lasted = perf_counter() - start
    if wrong := [answer for answer in answers if not right(answer)]:
        raise AssertionError(f"wrong answer: {wrong[0]}")
    return count / lasted


async def checked(pep: Enforcer, number: int) -> None:
    """One question about the next object, whose right answer is known: everything may be read."""
    decision = await pep.check("alice", OBJECTS[number % len(OBJECTS)], "read")
    if not decision.allowed:
        raise AssertionError(f"wrong answer: {decision}")


async def raw_rate(client: Client) -> float:
    return await rate(
        lambda _: client.request("raw", PAYLOAD, timeout=5),
        20_000,
        right=lambda answer: answer.data == PAYLOAD,
    )


async def decision_rate(pep: Enforcer) -> float:
    return await rate(
        lambda number: pep.check("alice", OBJECTS[number % len(OBJECTS)], "read"),
        80_000,
        right=lambda decision: decision.allowed,
    )


async def rates(client: Client, pep: Enforcer) -> tuple[float, float]:
    """Requests and decisions per second: each the best of as many rounds, in turn.

    The best round shows what the code can do without what else the machine was doing. It is drawn from equally
    many for both, since the best of more rounds is better.
    """
    await checked(pep, 0)
    rounds = [(await raw_rate(client), await decision_rate(pep)) for _ in range(ROUNDS)]
    raw, decisions = zip(*rounds, strict=True)
    return max(raw), max(decisions)


async def against_raw(url: str) -> dict[str, float]:
    """Round trip and throughput, fabric and plain request/reply in turn, so that a slow moment strikes both."""
    raw_rtt, rtt = list[float](), list[float]()
    client = await nats.connect(url)
    async with (
        replicas(url, 1, "domain:default"),
        Enforcer.connect(url, deadline=5.0, trust=UNVERIFIED) as pep,
    ):
        await checked(pep, 0)
        for _ in range(ROUNDS):
            asked = [lambda: client.request("raw", PAYLOAD), lambda: checked(pep, 7)]
            for times, each in zip((raw_rtt, rtt), await medians(asked, 800), strict=True):
                times.append(each)
        raw, one_scope = await rates(client, pep)
    scopes = [f"prefix:/{area}" for area in AREAS]
    async with replicas(url, 1, *scopes), Enforcer.connect(url, deadline=5.0, trust=UNVERIFIED) as pep:
        raw_beside, four_scopes = await rates(client, pep)
    await client.close()
    return {
        "raw_rtt_us": min(raw_rtt) * 1e6,
        "rtt_us": min(rtt) * 1e6,
        "rtt_ratio": min(rtt) / min(raw_rtt),
        "raw_per_s": raw,
        "decisions_per_s": one_scope,
        "throughput_ratio": one_scope / raw,
        "throughput_ratio_4_scopes": four_scopes / raw_beside,
    }


async def failures(pep: Enforcer, count: int) -> int:
    """How many of `count` questions the fabric could not decide."""
    failed = 0

    async def ask(number: int) -> None:
        nonlocal failed
        decision = await pep.check("alice", OBJECTS[number % len(OBJECTS)], "read")
        failed += not decision.decided

    await rate(ask, count, in_flight=32)
    return failed


async def under_hedging(url: str) -> dict[str, float]:
    """What hedging costs when nothing is wrong, and what it saves when a replica is frozen."""
    async with (
        replicas(url, 3, "domain:default") as running,
        Enforcer.connect(url, strategy=Strategy.HEDGE, trust=UNVERIFIED) as pep,
    ):
        await failures(pep, 2_000)  # learn how long answers take
        before = sum([await replica.evaluations() for replica in running])
        await failures(pep, 10_000)
        after = sum([await replica.evaluations() for replica in running])
        os.kill(running[0].pid, signal.SIGSTOP)
        frozen = await failures(pep, 10_000)
        os.kill(running[0].pid, signal.SIGCONT)
    return {"hedge_load_ratio": (after - before) / 10_000, "frozen_failures": frozen}


async def by_subscriptions(url: str) -> dict[str, float]:
    """The round trip on the object's own subject, with 100 and with 10,000 objects subscribed by the PDP."""
    few, many = [f"object:/few/{n}" for n in range(100)], [f"object:/many/{n}" for n in range(10_000)]
    times: dict[int, list[float]] = {100: [], 10_000: []}
    async with Enforcer.connect(url, deadline=5.0, trust=UNVERIFIED) as pep:
        for _ in range(3):
            for count, scopes in ((100, few), (10_000, many)):
                thing = scopes[50].removeprefix("object:")
                async with replicas(url, 1, *scopes):
                    await pep.require("alice", thing, "read")
                    ask = functools.partial(pep.require, "alice", thing, "read")
                    times[count] += [await median(ask, 500) for _ in range(3)]
    return {"subscriptions_ratio": min(times[10_000]) / min(times[100])}


async def measure() -> dict[str, float]:
    figures: dict[str, float] = {}
    for part in (against_raw, under_hedging, by_subscriptions):
        async with NatsServer() as server:
            figures |= await part(server.url)
    return figures


def run() -> dict[str, float]:
    """A decision over the fabric, against plain nats-py (uvloop) request/reply between the same processes."""
    return uvloop.run(measure())


if __name__ == "__main__":
    main(run)
