"""Five broker processes on a cluster of three servers, struck at random under load, with clients that fail over.

Every event that a publisher was told is taken reaches every durable subscriber that may see it, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from uuid import uuid4

import pytest

from authfabric.scenarios.testbed import Domain
from authz import Identity
from bus import BusError, NatsServer, cluster
from pubsub_core import DurableSubscriber, EventClient, EventType, Gap
from pubsub_core.trust import Credential, issue
from pubsub_core.types import SignedType
from tests.pubsub_core.town import rule
from tests.waiting import PATIENCE, eventually, once_it_works

BROKERS = ("b1", "b2", "b3", "b4", "b5")
GROUP = "five"
POLICIES = (
    rule("writers", subject_id="writer")
    + rule("whole", subject_id="whole")
    + rule("even", '[{filter: "parity = 0"}]', subject_id="even")
)


@dataclass
class Load:
    """What was published and read, and how long it took to go on after a fault."""

    taken: dict[str, int] = field(default_factory=dict)
    """How many events of each publisher were acknowledged, of those numbered from 0 on."""
    read: dict[str, Counter[tuple[str, int]]] = field(default_factory=dict)
    """By durable subscription, how often each event was read."""
    pauses: dict[str, float] = field(default_factory=dict)
    """The longest time in seconds that a publisher waited to be acknowledged, by the faults before and meanwhile."""
    gaps: list[str] = field(default_factory=list)

    def owed(self, durable: str) -> set[tuple[str, int]]:
        return {
            (name, number)
            for name, count in self.taken.items()
            for number in range(count)
            if durable != "even" or number % 2 == 0
        }

    def missing(self, durable: str) -> set[tuple[str, int]]:
        return self.owed(durable) - self.read[durable].keys()


class Five:
    """Five brokers of one group, and the servers they are on."""

    def __init__(self, domain: Domain, servers: list[NatsServer], kind: EventType) -> None:
        self.domain = domain
        self.servers = servers
        self.kind = kind
        self.load = Load()
        self._struck = ["no fault"]
        """The kinds of the faults so far."""
        self._ended = asyncio.Event()

    @contextlib.asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[EventClient]:
        identity = Identity.generate()
        credential = Credential(str(identity.public), name, self.domain.name, time() + 1000)
        async with EventClient.connect(
            self.domain.url,
            group=GROUP,
            domain=self.domain.name,
            identity=identity,
            credential=issue(credential, self.domain.key),
            trust=self.domain.owners,
        ) as client:
            yield client

    async def publish(self, name: str) -> None:
        """Publish, ten events at a time, until told to end."""
        self.load.taken[name], pauses = 0, self.load.pauses
        async with self.client("writer") as client:
            publisher = await client.publisher(self.kind.name)
            while not self._ended.is_set():
                first, begun, last = self.load.taken[name], monotonic(), len(self._struck) - 1
                for number in range(first, first + 10):
                    await publisher.publish(source=name, number=number, parity=number % 2)
                await publisher.flush()
                self.load.taken[name] = first + 10
                faults = ", ".join(self._struck[last:])
                pauses[faults] = max(pauses.get(faults, 0.0), monotonic() - begun)
                await asyncio.sleep(0.01)

    async def read(self, name: str, subscriber: DurableSubscriber) -> None:
        """Read for good, each event acknowledged by reading the next."""
        seen = self.load.read[name] = Counter()
        async for event in subscriber:
            if isinstance(event, Gap):
                self.load.gaps.append(f"{name}: {event}")
            else:
                seen[str(event["source"]), int(str(event["number"]))] += 1

    async def kill_broker(self, name: str) -> None:
        await self.domain.restart_broker(name)

    async def freeze_broker(self, name: str) -> None:
        process = self.domain.processes[name]
        process.freeze()
        await asyncio.sleep(1.5)
        process.thaw()

    async def drain_broker(self, name: str) -> None:
        await self.domain.processes[name].stop()
        self.domain.processes[name] = await self.domain._launch_broker(name)

    async def kill_server(self, number: int) -> None:
        await self.servers[number].stop(signal.SIGKILL)
        await self.servers[number].start()

    async def strike(self, chance: random.Random, faults: int) -> list[str]:
        """Faults one after the other, of each kind in turn, on whom chance chooses."""
        kinds: list[tuple[str, Callable[..., Awaitable[None]]]] = [
            ("kill broker", self.kill_broker),
            ("freeze broker", self.freeze_broker),
            ("kill server", self.kill_server),
            ("drain broker", self.drain_broker),
        ]
        told = []
        for turn in range(faults):
            what, fault = kinds[turn % len(kinds)]
            whom: str | int = chance.randrange(3) if "server" in what else chance.choice(BROKERS)
            told.append(f"{what} {whom}")
            self._struck.append(what)
            await fault(whom)
            await asyncio.sleep(chance.uniform(0.1, 0.6))
        return told

    async def run(self, seed: int, faults: int) -> list[str]:
        async with contextlib.AsyncExitStack() as stack:
            readers = []
            for name in ("whole", "even"):
                client = await stack.enter_async_context(self.client(name))
                subscriber = await client.subscriber(self.kind.name, durable=name)
                readers.append(asyncio.create_task(self.read(name, subscriber)))
            writers = [asyncio.create_task(self.publish(name)) for name in ("w1", "w2")]
            try:
                told = await self.strike(random.Random(seed), faults)
                self._ended.set()
                async with asyncio.timeout(2 * PATIENCE):
                    await asyncio.gather(*writers)
                    await eventually(lambda: not any(map(self.load.missing, self.load.read)))
            finally:
                for each in (*readers, *writers):
                    each.cancel()
        return told


@contextlib.asynccontextmanager
async def five(folder: Path) -> AsyncIterator[Five]:
    async with cluster(3, jetstream=True) as servers:
        domain = Domain("met", ",".join(each.url for each in servers), folder)
        kind = EventType.new(
            "met.Sighting",
            domain.key.public,
            [("source", "string"), ("number", "integer"), ("parity", "integer")],
            uuid4,
        )
        try:
            signed = SignedType.sign(kind, domain.key)
            await once_it_works(lambda: domain.publish_types(signed), BusError)
            await once_it_works(lambda: domain.release(POLICIES), BusError)
            await domain.start_pdp()
            await asyncio.gather(
                *(domain.start_broker([domain], domain.key, ["--group", GROUP], name) for name in BROKERS)
            )
            yield Five(domain, list(servers), kind)
        finally:
            await asyncio.gather(*(each.stop() for each in domain.processes.values()))


async def check(folder: Path, seed: int, faults: int) -> None:
    async with five(folder) as brokers:
        told = await brokers.run(seed, faults)
        load = brokers.load
    pauses = sorted(load.pauses.items(), key=lambda each: -each[1])[:5]
    print(
        f"seed {seed}: {len(told)} faults; {sum(load.taken.values())} events acknowledged;"
        f" read {', '.join(f'{sum(seen.values())} by {name}' for name, seen in load.read.items())};"
        f" longest pauses of a publisher {', '.join(f'{took:.2f} s ({faults})' for faults, took in pauses)};"
        f" {len(load.gaps)} gaps"
    )
    for name, seen in load.read.items():
        assert not load.missing(name)
        assert [each for each, count in seen.items() if count > 1] == []
        assert name != "even" or all(number % 2 == 0 for _, number in seen)
    assert load.gaps == []


async def test_every_acknowledged_event_reaches_every_durable_subscriber_once(tmp_path):
    await check(tmp_path, seed=1, faults=4)


@pytest.mark.cluster
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3, 4])
async def test_the_same_for_many_faults(tmp_path, seed):
    await check(tmp_path, seed, faults=40)
