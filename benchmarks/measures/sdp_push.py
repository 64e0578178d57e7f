"""How long a policy push takes to have its effect at a hundred SDPs, and what a check from cache costs a service."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
from time import thread_time, time

import uvloop

from authfabric.files import empower
from authz import Identity, Request
from bus.nats import Connection
from bus.server import NatsServer
from bus.wire import Scope
from pdp.bundle import Bundle, File, PolicySet
from pdp.engine import Engine
from pdp.releases import Publisher
from pdp.replica import AnswerAuthority, Replica
from pep import Enforcer

SDPS, PROCESSES, PUSHES = 100, 4, 10
CHECKS, ROUNDS = 2_000, 15


def figures() -> dict[str, float]:
    return uvloop.run(_figures())


async def _figures() -> dict[str, float]:
    identity = Identity.generate()
    async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
        publisher = Publisher(bus, "default", identity, {identity.public}, time)
        await publisher.push(bundle(0))
        delays = sorted(await pushes(server.url, publisher, identity))
        checks = await checking(server.url, bus, identity)
    return {
        "push_to_effect_ms": 1000 * delays[int(0.99 * len(delays))],
        "push_to_effect_ms_median": 1000 * statistics.median(delays),
        **checks,
    }


def bundle(number: int) -> Bundle:
    text = f"- {{uid: p, effect: allow, rules: {{}}, targets: {{subject_id: [alice, user{number}]}}}}"
    return Bundle.of([File("p.yaml", text)])


async def pushes(url: str, publisher: Publisher, identity: Identity) -> list[float]:
    """Seconds from the start of a push until a SDP has applied it, for each push and SDP."""
    delays: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        fleet = [await _start(url, identity, stack) for _ in range(PROCESSES)]
        for number in range(1, PUSHES + 1):
            start = time()
            await publisher.push(bundle(number))
            for lines in fleet:
                delays += [float(await lines.readline()) - start for _ in range(SDPS // PROCESSES)]
    return delays


async def _start(url: str, identity: Identity, stack: contextlib.AsyncExitStack) -> asyncio.StreamReader:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.processes.sdp_fleet", url, str(identity.public), str(SDPS // PROCESSES),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    stack.push_async_callback(process.wait)
    stack.callback(process.stdin.close)
    assert await process.stdout.readline() == b"ready\n"
    return process.stdout


async def checking(url: str, bus: Connection, identity: Identity) -> dict[str, float]:
    """Microseconds of CPU for `await pep.check(request)` answered from cache, and for awaiting nothing at all."""
    question = Request.of("alice", "/x", "read")
    async with Enforcer.connect(url, trust=[identity.public], deadline=10.0) as pep:
        assert pep.secondary is not None
        await pep.secondary.feed.ready.wait()
        engine: Engine = PolicySet.read(bundle(PUSHES)).engine(pep.secondary.point.epoch, certify=True)
        holder = Identity.generate()
        authority = AnswerAuthority(holder, [empower(holder, identity)], time())
        async with Replica(bus, engine, [Scope.parse("domain:default")], authority=authority):
            await pep.check(question)
        assert (await pep.check(question)).inferred is not None
        checks, empties = [], []
        for _ in range(ROUNDS):
            start = thread_time()
            for _ in range(CHECKS):
                await pep.check(question)
            checks.append(thread_time() - start)
            start = thread_time()
            for _ in range(CHECKS):
                await _nothing()
            empties.append(thread_time() - start)
    each = 1e6 / CHECKS
    return {"check_us": statistics.median(checks) * each, "coroutine_us": statistics.median(empties) * each}


async def _nothing() -> None:
    """What any coroutine costs."""
