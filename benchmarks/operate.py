"""What it costs to run a fabric: idle processes, metrics, commands that start, and the console's log."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter, time
from timeit import timeit

import httpx
import uvloop

from authfabric.files import DEFAULT_POLICIES
from authfabric.processes import ConsoleProcess, Fabric, fabric, serve_console
from authz import Decision, Request
from benchmarks.harness import at_least, at_most, best, main
from bus.audit import AuditStore, AuditTrail
from bus.nats import connect
from bus.runtime import TRACES
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import read_folder
from pdp.releases import Publisher
from pep import Enforcer

PROMISES = {
    "metrics_cost": at_least(0.97),
    "otel_off_cost": at_least(0.97),
    "otel_1pct_cost": at_least(0.95),
    "idle_pdp_cpu": at_most(0.005),
    "help_start_s": at_most(0.1),
    "version_start_s": at_most(0.1),
    "ask_start_s": at_most(0.3),
    "console_log_rate": at_least(2000),
}
IDLE_SECONDS = 8.0
"""How long idle processes are watched."""
ROUNDS = 16
"""How often each way is measured, in turn: the best rounds are compared, for others meet what else the machine does."""
CHECKS = 3000
"""Decisions that are asked for together."""
ROUND_SECONDS = 0.5
"""The least time of a round: several scrapes fall into each."""
LINES = 250
"""Decisions audited in one step."""
STEPS = 40
STEP_SECONDS = 0.1
"""Time between two steps: 2,500 lines a second."""
SCRAPE_SECONDS = 0.1
TRACED_SHARE = 0.01


def run() -> dict[str, float]:
    return uvloop.run(_measure())


async def _measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        async with fabric(0, policies=None, jetstream=Path(folder) / "store") as running:
            async with connect(running.url, name="benchmark") as bus:
                publisher = Publisher(bus, DEFAULT_DOMAIN, running.root, (), time)
                await publisher.push(read_folder(DEFAULT_POLICIES))
            trust = ["--trust", str(running.root.public)]
            await running.add("pdp-1", extra=[*trust, "--cache", str(Path(folder) / "cache")])
            idle = await _idle(running)
            return {
                **idle,
                "metrics_cost": await _metrics_cost(running),
                **await _otel_costs(running),
                **await asyncio.to_thread(_starts, running),
                "console_log_rate": await _console_log_rate(running),
            }


async def _idle(running: Fabric) -> dict[str, float]:
    """The share of a core that a replica, and the server, use while nobody asks."""
    server = running.server.pid if running.server is not None else 0
    pids = {"idle_pdp_cpu": running.replicas["pdp-1"].pid, "idle_server_cpu": server}
    await asyncio.sleep(2.0)
    before = {name: _cpu(pid) for name, pid in pids.items()}
    began = perf_counter()
    await asyncio.sleep(IDLE_SECONDS)
    passed = perf_counter() - began
    return {name: round((_cpu(pid) - before[name]) / passed, 4) for name, pid in pids.items()}


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _metrics_cost(running: Fabric) -> float:
    """Throughput while metrics are scraped ten times a second, over that while they are not: each the best round."""
    health = str(running.replicas["pdp-1"].ready.health)
    rates: dict[bool, list[float]] = {True: [], False: []}
    async with Enforcer.connect(
        running.url, trust=[running.root.public], recycling=None, audit=False, deadline=10.0
    ) as pep:
        questions = [("alice", f"/sales/{number}", "read") for number in range(CHECKS)]
        await pep.check_many(questions)
        for round_ in range(ROUNDS):
            for scraped in _in_turn(round_):
                with _scraping(health) if scraped else nullcontext():
                    rates[scraped].append(await _rate(lambda: pep.check_many(questions)))
    return round(max(rates[True]) / max(rates[False]), 3)


def _in_turn(round_: int) -> tuple[bool, bool]:
    """With and without, each first as often as the other."""
    return (True, False) if round_ % 2 else (False, True)


async def _rate(ask: Callable[[], Awaitable[list[Decision]]]) -> float:
    """Decisions a second, in a round of `ROUND_SECONDS` at least."""
    began, asked = perf_counter(), 0
    while (passed := perf_counter() - began) < ROUND_SECONDS:
        answers = await ask()
        asked += len(answers)
        assert all(each.allowed for each in answers)
    return asked / passed


async def _otel_costs(running: Fabric) -> dict[str, float]:
    """Throughput of single checks while one in a hundred is traced, over that while none is.

    And without traces: one less the share of a check's time that goes into finding that they are off.
    """
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider = TracerProvider()
    exporter = InMemorySpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("benchmark")
    rates: dict[bool, list[float]] = {True: [], False: []}
    async with Enforcer.connect(
        running.url, trust=[running.root.public], recycling=None, audit=False, deadline=10.0
    ) as pep:

        async def ask() -> list[Decision]:
            return await asyncio.gather(*[pep.check("alice", f"/sales/{n}", "read") for n in range(CHECKS)])

        await ask()
        for round_ in range(ROUNDS):
            for traced in _in_turn(round_):
                TRACES.use(tracer if traced else None, TRACED_SHARE)
                rates[traced].append(await _rate(ask))
    TRACES.use(None)
    provider.shutdown()
    assert exporter.get_finished_spans()
    off = timeit("TRACES.on; TRACES.on", globals={"TRACES": TRACES}, number=1_000_000) / 1_000_000
    return {
        "otel_off_cost": round(1 - off * max(rates[False]), 4),
        "otel_1pct_cost": round(max(rates[True]) / max(rates[False]), 3),
    }


@contextmanager
def _scraping(health: str) -> Iterator[None]:
    """Metrics are read by a process of its own, as Prometheus does, over one connection."""
    command = [sys.executable, "-c", _SCRAPER, health.removeprefix("http://"), str(SCRAPE_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as scraper:
        assert scraper.stdout is not None
        scraper.stdout.readline()
        try:
            yield
        finally:
            scraper.terminate()


_SCRAPER = """
import http.client, sys, time
connection = http.client.HTTPConnection(sys.argv[1])
while True:
    connection.request("GET", "/metrics")
    assert connection.getresponse().read()
    print(flush=True)
    time.sleep(float(sys.argv[2]))
"""


def _starts(running: Fabric) -> dict[str, float]:
    """Seconds that commands take, from the shell's point of view, once Python has compiled what they load."""
    command = [sys.executable, "-m", "authfabric"]
    trust = ["--url", running.url, "--trust", str(running.root.public)]
    words = {
        "version_start_s": ["--version"],
        "help_start_s": ["--help"],
        "ask_start_s": ["ask", "alice", "/sales/q1", "read", *trust],
    }

    with tempfile.TemporaryDirectory() as compiled:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def start(each: list[str]) -> None:
            subprocess.run([*command, *each], check=True, stdout=subprocess.DEVNULL, env=environment)

        def timed(each: list[str]) -> float:
            start(each)  # which compiles
            return best(lambda: start(each), rounds=7)

        return {name: round(timed(each), 3) for name, each in words.items()}


async def _console_log_rate(running: Fabric) -> float:
    """Lines a second that a browser is sent of those that are audited, if none is left out; 0 if some are."""
    given = ConsoleProcess(running.url, [running.root.public])
    async with (
        serve_console(given) as served,
        connect(running.url, name="benchmark") as bus,
        httpx.AsyncClient(base_url=served.address, timeout=30) as client,
    ):
        store = AuditStore(bus, DEFAULT_DOMAIN)
        await store.create()
        await client.post("/sign-in", data={"token": given.token})
        async with client.stream("GET", "/live") as stream:
            lines = stream.aiter_lines()
            await anext(lines)  # it listens
            writing = asyncio.create_task(_write(store))
            began, shown = perf_counter(), 0
            async for line in lines:
                if line.startswith("data:") and '"rows"' in line:
                    news = json.loads(line.removeprefix("data:"))
                    shown += news["shown"]
                    if news["missed"]:
                        return 0.0
                    if shown >= LINES * STEPS:
                        break
            await writing
            return round(shown / (perf_counter() - began), 1)


async def _write(store: AuditStore) -> None:
    trail = AuditTrail("benchmark-writer", limit=LINES)
    request, decision = Request.of("alice", "/sales/q1", "read"), Decision(True, policies=("p",))
    for step in range(STEPS):
        began = perf_counter()
        for _ in range(LINES):
            trail.record(request, decision, time())
        await store.append(trail.writer, trail.drain(time()), str(step))
        await asyncio.sleep(max(0.0, STEP_SECONDS - (perf_counter() - began)))


if __name__ == "__main__":
    main(run)
