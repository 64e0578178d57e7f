"""One run: a fabric is started, struck by what was planned while it works, and left in peace; the record is written."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from authfabric.chaos.faults import (
    HEAL_SECONDS,
    Attackers,
    FaultKind,
    Faults,
    Lane,
    StoreFaults,
    StoreWatch,
    schedule,
)
from authfabric.chaos.record import Recorder, Run
from authfabric.chaos.runner.bounds import bounded
from authfabric.chaos.runner.observations import kept_records, sample
from authfabric.chaos.testbed import BROKERS, CLIENTS, NODES, EventService, Members, cluster
from authfabric.chaos.workload import Releaser
from authz import Identity
from bus.feeds import DEFAULT_LEASE
from pep import LeaseRules
from pubsub_core.server import LEASE_SECONDS, OVERTIME

RATES = {"pep-1": 550, "pep-2": 550, "pep-3": 40}
"""Questions a second of each PEP."""
UNCACHED = "pep-3"
"""The PEP that has no cache, and asks the PDPs each time."""
AUDITED = "pep-1"
"""The PEP whose decisions are audited."""
BROKER_LEASE = LEASE_SECONDS + OVERTIME
"""The longest time for which a broker goes by a release after the store last confirmed it."""
SETTLE_SECONDS = 5.0
"""How long the fabric works undisturbed at the end."""
AGAIN_SECONDS = 1.0
FAULT_SECONDS = 480.0
"""How much longer than planned a fault may take, until what it struck runs again."""
FINISH_SECONDS = 180.0
"""How long the fabric may take to finish what was begun."""
LONGEST_ON_SMALL_DISK = 3600.0
"""Seconds of a run whose audit records fit on the small disk: a longer one has none, and no disk that is full."""
SAMPLE_SECONDS = 60.0
SAMPLES = 20
"""How often it is looked at least what processes use."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part besides the servers."""

    accesses: tuple[str, ...] = ("access-1", "access-2")
    pdps: tuple[str, ...] = ("pdp-1", "pdp-2", "pdp-3")
    peps: tuple[str, ...] = tuple(RATES)
    brokers: tuple[str, ...] = BROKERS
    """With their clients."""


SMALL = Cast(("access-1",), ("pdp-1", "pdp-2"), ("pep-1",), ())
"""What a slow machine starts in seconds."""


@dataclass(frozen=True, slots=True)
class ChaosRun:
    """What is wanted of a run."""

    seed: int
    seconds: float
    record: Path
    only: frozenset[FaultKind] = frozenset(FaultKind)
    """The kinds of faults that may strike."""
    cast: Cast = Cast()


async def run(order: ChaosRun, say: Say) -> None:
    """Carry a run out. What is left is its record."""
    folder = Path(tempfile.mkdtemp(prefix="authfabric-chaos-"))
    record = Recorder(folder / "main.record")
    try:
        small_disk = order.seconds <= LONGEST_ON_SMALL_DISK
        async with cluster.running(folder, record, small_disk=small_disk) as servers:
            members = Members(servers, folder, record, Identity.generate())
            try:
                await _play(order, members, say)
            finally:
                await members.stop()
    finally:
        record.close()
        _collect(folder, order.record)
        shutil.rmtree(folder, ignore_errors=True)


async def _play(order: ChaosRun, members: Members, say: Say) -> None:
    servers, record, folder, cast = members.cluster, members.record, members.folder, order.cast
    say("three NATS servers run; starting access control, PDPs and services")
    await members.add_access(cast.accesses[0])
    operator = members.credentials("operator", "network: *\naction: connect|install")
    url = await servers.connect("operator")
    releaser = Releaser(url, operator, members.root, record, random.Random(order.seed))
    watch = StoreWatch(await servers.connect("watch"), servers.local.own_credentials())
    first = bounded("releasing the first policies", _until(releaser.push), FINISH_SECONDS)
    await asyncio.gather(first, *map(members.add_access, cast.accesses[1:]), *map(members.add_pdp, cast.pdps))
    await asyncio.gather(
        _add_events(members, cast.brokers, url),
        *(
            members.add_pep(
                name, RATES[name], order.seed + number, caching=name != UNCACHED, audit=name == AUDITED
            )
            for number, name in enumerate(cast.peps)
        ),
    )
    lease = max(DEFAULT_LEASE, LeaseRules().seconds)
    bound = max(lease, BROKER_LEASE)
    record(Run(monotonic(), order.seed, order.seconds, cast.peps, cast.pdps, NODES, lease, bound))
    async with watch:
        await watch.healthy(60.0)
        stores = StoreFaults(servers, watch, folder / "copies")
        await stores.copy_all()
        strangers = Attackers(servers, members, record, await servers.connect("strangers"))
        struck = (cast.pdps, cast.peps, cast.accesses, cast.brokers)
        faults = Faults(servers, members, releaser, watch, record, *struck, stores, strangers)
        end = monotonic() + order.seconds
        sampling = asyncio.create_task(_sample(members, order.seconds))
        lanes = [asyncio.create_task(_lane(order, faults, lane, end, say)) for lane in Lane]
        try:
            await asyncio.gather(*lanes)
        finally:
            for task in (sampling, *lanes):
                task.cancel()
        await bounded("waiting for releases to be complete", releaser.finish(), FINISH_SECONDS)
        await watch.healthy(60.0)
        await asyncio.sleep(SETTLE_SECONDS)
        say("the faults are over; looking at what is left")
        await bounded("reading the store", _until(partial(releaser.look, last=True)), FINISH_SECONDS)
    clients = (CLIENTS,) if cast.brokers else ()
    await asyncio.gather(*(members.end(name) for name in (*cast.peps, *clients)))
    auditor = members.credentials("auditor", "network: *\naction: connect|audit")
    record(*await bounded("reading the audit stream", kept_records(url, auditor), FINISH_SECONDS))


async def _add_events(members: Members, brokers: Sequence[str], url: str) -> None:
    """Start brokers, and their clients when they run."""
    if not brokers:
        return
    events = EventService(members)
    await events.define(url)
    await asyncio.gather(*map(events.add_broker, brokers))
    await events.add_clients()


async def _until(work: Callable[[], Awaitable[bool]]) -> None:
    """Do something again and again until it succeeds."""
    while not await work():  # noqa: ASYNC110 - what is waited for is in other processes
        await asyncio.sleep(AGAIN_SECONDS)


async def _lane(order: ChaosRun, faults: Faults, lane: Lane, end: float, say: Say) -> None:
    """One fault after another, until the time is over."""
    for planned in schedule(order.seed, lane, order.only & faults.acts.keys()):
        if monotonic() + planned.pause > end:
            return
        await asyncio.sleep(planned.pause)
        target = await bounded(str(planned.kind), faults.do(planned), planned.seconds + FAULT_SECONDS)
        say(f"{planned.kind}: {target}")
        if lane is Lane.SERVERS and not await faults.heal():
            say(f"after {planned.kind} the servers have not the same again within {HEAL_SECONDS:g} s")


async def _sample(members: Members, seconds: float) -> None:
    """Take note of what every process uses, again and again."""
    while True:
        running = {name: each.pid for name, each in members.processes.items() if each.running}
        running |= {name: each.pid for name, each in members.cluster.servers.items() if each.running}
        samples = [sample(name, pid) for name, pid in running.items()]
        members.record(*(each for each in samples if each is not None))
        await asyncio.sleep(min(SAMPLE_SECONDS, seconds / SAMPLES))


def _collect(folder: Path, to: Path) -> None:
    """Put what all processes recorded into one file."""
    with to.open("wb") as file:
        for each in sorted(folder.glob("*.record")):
            with each.open("rb") as part:
                shutil.copyfileobj(part, file)
