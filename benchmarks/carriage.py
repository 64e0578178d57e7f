"""What carriage costs a broker: sealing for many interested brokers, and having nothing to do among many."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from time import process_time, time
from uuid import uuid4

import uvloop

from authz import Decision, Identity, Request
from authz.spki import Authority, Capability, Grant, Kind, Resource, Right, encode_chain
from benchmarks.harness import progress
from bus.errors import BusError
from bus.nats import Connection
from bus.server import NatsServer
from bus.wire import Scope
from pdp.replica import Replica
from pubsub_core.client import EventClient, Subscriber
from pubsub_core.key_groups import KeyDistribution, KeyedType, KeyManager
from pubsub_core.keys import Plan
from pubsub_core.server import BrokerService, Serving, serve_broker
from pubsub_core.stores import TypeStore
from pubsub_core.trust import ALL, Credential, issue, vouch
from pubsub_core.types import AttributeType, Catalogue, EventType, SignedType

DOMAIN = "bench"
TYPES = 40
SEALED = ("bench.T0", "bench.T1")
FEW, MANY = 10, 40
"""How many brokers there are when they have nothing to do."""
INTERESTED = 16
BUNDLE = 512
"""Events published at a time: what one costs depends on that."""
EVENTS = 20 * BUNDLE
ROUNDS = 5
AT_ONCE = 5
"""How many brokers of a process start at a time: they wait for the server more than they compute."""
SETTLE_SECONDS = 8.0
IDLE_SECONDS = 20.0


class Willing:
    """A decision point that allows everything."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        return [Decision(True, policies=("bench",)) for _ in requests]


class Ground:
    """A server with types, of which the first two are sealed, and a PDP that allows everything."""

    def __init__(self, url: str, owner: Identity, seed: bytes, kinds: list[EventType]) -> None:
        self.url = url
        self.owner = owner
        self.kinds = kinds
        self._seed = seed

    @classmethod
    @contextlib.asynccontextmanager
    async def made(cls) -> AsyncIterator[Ground]:
        seed = uuid4().bytes * 2
        owner = Identity.from_seed(seed)
        attributes = [(f"a{number}", AttributeType.STRING) for number in range(4)]
        kinds = [EventType.new(f"bench.T{n}", owner.public, attributes, uuid4) for n in range(TYPES)]
        async with NatsServer(jetstream=True) as server, Connection(server.url) as bus:
            catalogue = Catalogue()
            store = TypeStore(bus, catalogue)
            for kind in kinds:
                await store.publish(SignedType.sign(kind, owner))
            async with Replica(bus, Willing(), [Scope.parse(f"domain:{DOMAIN}")]), AsyncExitStack() as stack:
                for name in SEALED:
                    keyed = KeyedType.of(catalogue, name)
                    office = KeyDistribution(owner, keyed, Plan.each(keyed.names), keyed.verifier())
                    await stack.enter_async_context(KeyManager(bus, office, pulse=60.0).serving())
                yield cls(server.url, owner, seed, kinds)

    @contextlib.asynccontextmanager
    async def hosting(self, first: int, count: int, wanted: Sequence[int]) -> AsyncIterator[Host]:
        """Run `count` brokers in one process. Each has a client that subscribes to one of the wanted types."""
        words = json.dumps([self.url, self._seed.hex(), first, count, list(wanted)])
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.carriage", words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            host = Host(child)
            await host.seconds()
            yield host
        finally:
            child.terminate()
            await child.wait()

    def client(self, broker: int) -> contextlib.AbstractAsyncContextManager[EventClient]:
        return client_of(self.url, self.owner, broker)


class Host:
    """A process with brokers."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def seconds(self) -> float:
        """The processor time that it has used."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(b"?\n")
        return float(await self._child.stdout.readline())


def client_of(url: str, owner: Identity, broker: int) -> contextlib.AbstractAsyncContextManager[EventClient]:
    identity = Identity.generate()
    credential = Credential(str(identity.public), f"client-{broker}", DOMAIN, time() + 10_000)
    return EventClient.connect(
        url, broker=f"b{broker}", domain=DOMAIN, identity=identity, credential=issue(credential, owner)
    )


def serving(url: str, owner: Identity, number: int, sealed: Sequence[str] = ()) -> Serving:
    """How one of the brokers is set up."""
    identity, keys = Identity.generate(), {owner.public}
    chains = {}
    for name in sealed:
        grant = Grant.of(Resource.of(Kind.TYPE, name), [Right.PUBLISH, Right.SUBSCRIBE])
        capability = Capability(owner.public, identity.public, False, Authority.of(grant))
        chains[name] = encode_chain([capability.sign(owner)])
    return Serving(
        url,
        f"b{number}",
        DOMAIN,
        identity,
        clients={DOMAIN: keys},
        roots=keys,
        vouches=(vouch(identity.public, [ALL], time() + 10_000, owner),),
        sealed=chains,
        unverified=True,
    )


@contextlib.asynccontextmanager
async def broker_of(url: str, owner: Identity, number: int) -> AsyncIterator[BrokerService]:
    async with serve_broker(serving(url, owner, number, SEALED)) as service:
        while len(service.sealing.vault.ring.groups) < 8:  # noqa: ASYNC110 - nothing here tells
            await asyncio.sleep(0.05)
        yield service


async def fanout() -> dict[str, float]:
    """Processor time of a publisher's broker for each sealed event, for one interested broker and for many."""
    alone, many = list[float](), list[float]()
    async with (
        Ground.made() as ground,
        ground.hosting(0, 1, []) as host,
        ground.hosting(1, INTERESTED, [0] * (INTERESTED - 1) + [1]),
        ground.hosting(INTERESTED + 1, 1, [0]),
    ):
        for _ in range(ROUNDS):  # turn and turn about, so that a slow moment strikes both
            many.append(await _published(ground, host, 0))
            alone.append(await _published(ground, host, 1))
    return {"sealed_us": 1e6 * min(alone), "fanout_cost": min(many) / min(alone)}


async def idle() -> dict[str, float]:
    """Processor time of brokers that have nothing to do, among few and among many."""
    progress(f"{FEW} idle brokers")
    async with Ground.made() as ground, ground.hosting(0, FEW, range(FEW)) as first:
        few = await _idle([first], FEW)
        progress(f"{MANY} idle brokers")
        async with ground.hosting(FEW, MANY - FEW, [each % TYPES for each in range(FEW, MANY)]) as rest:
            all_ = await _idle([first, rest], MANY)
    return {f"idle_cpu_{FEW}": few, f"idle_cpu_{MANY}": all_, "idle_growth": all_ / few}


async def _published(ground: Ground, host: Host, kind: int) -> float:
    """Seconds of processor time of the publisher's broker for each event."""
    async with ground.client(0) as writer:
        publisher = await writer.publisher(ground.kinds[kind].name)
        await publisher.wanted()
        start = await host.seconds()
        for number in range(EVENTS):
            await publisher.publish(a0=f"value {number}", a1="Victoria", a2="x", a3="y")
            if number % BUNDLE == BUNDLE - 1:
                await publisher.flush()
        return (await host.seconds() - start) / EVENTS


async def _idle(hosts: Sequence[Host], count: int) -> float:
    """Seconds of processor time for each second and broker, of so many brokers that have nothing to do."""
    await asyncio.sleep(SETTLE_SECONDS)
    start = sum([await each.seconds() for each in hosts])
    await asyncio.sleep(IDLE_SECONDS)
    return (sum([await each.seconds() for each in hosts]) - start) / IDLE_SECONDS / count


async def _host(url: str, seed: str, first: int, count: int, wanted: Sequence[int]) -> None:
    """Be a process with brokers, until it is ended; say how much processor time was used whenever asked."""
    owner = Identity.from_seed(bytes.fromhex(seed))
    async with contextlib.AsyncExitStack() as stack:
        for start in range(first, first + count, AT_ONCE):
            some = range(start, min(start + AT_ONCE, first + count))
            await asyncio.gather(*(_entered(stack, url, owner, number) for number in some))
        for number, kind in enumerate(wanted):
            client = await stack.enter_async_context(client_of(url, owner, first + number))
            subscriber = await client.subscriber(f"bench.T{kind}")
            stack.push_async_callback(subscriber.cancel)
            asyncio.get_running_loop().create_task(_read(subscriber))
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.readline():
            print(process_time(), flush=True)


async def _entered(stack: contextlib.AsyncExitStack, url: str, owner: Identity, number: int) -> None:
    """Start a broker, although a busy machine may take long to let it connect."""
    for left in reversed(range(10)):
        try:
            await stack.enter_async_context(broker_of(url, owner, number))
            return
        except BusError:
            if not left:
                raise


async def _read(subscriber: Subscriber) -> None:
    async for _ in subscriber:
        pass


if __name__ == "__main__":
    uvloop.run(_host(*json.loads(sys.argv[1])))
