"""What encrypted events cost: throughput through two brokers, and rekeying of key groups."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import statistics
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from math import log2
from time import process_time, thread_time, time
from uuid import uuid4

import uvloop

from authfabric.processes import keep_freed_memory
from authz import Decision, Identity, Request
from authz.spki import Authority, Capability, Grant, Kind, Resource, Right, encode_chain
from benchmarks.harness import at_least, at_most, best, main
from bus.nats import Connection
from bus.server import NatsServer
from bus.wire import Scope
from pdp.replica import Replica
from pubsub_core.client import Delivered, EventClient, Publisher, Subscriber
from pubsub_core.key_groups import KeyDistribution, KeyedType, KeyManager, Member, Tree
from pubsub_core.keys import Plan
from pubsub_core.server import BrokerService, Serving, serve_broker
from pubsub_core.stores import TypeStore
from pubsub_core.trust import ALL, Credential, issue, vouch
from pubsub_core.types import AttributeType, Catalogue, EventType, SignedType

EVENTS = 512
ROUNDS = 120
WARM_UP = 5
DOMAIN = "bench"
GROUPS = 11
"""Maximum key groups of which a broker holds the keys: one and ten attributes."""
PROMISES = {
    "attr1_ratio": at_least(0.75),
    "attr10_ratio": at_least(0.45),
    "rekey_messages_16": at_most(log2(16) + 2),
    "rekey_messages_256": at_most(log2(256) + 2),
    "rekey_messages_4096": at_most(log2(4096) + 2),
}


def run() -> dict[str, float]:
    """Measure throughput and rekeying."""
    keep_freed_memory()  # as brokers do
    return {**uvloop.run(throughput()), **rekeying()}


class Willing:
    """A decision point that allows everything."""

    async def decide_many(self, requests: Sequence[Request]) -> list[Decision]:
        return [Decision(True, policies=("bench",)) for _ in requests]


class Kinds:
    """The types compared: the same attributes in clear, and sealed one by one.

    Sealed types have one more attribute, which no event has and no broker may read.
    """

    def __init__(self, owner: Identity) -> None:
        self.owner = owner
        self.clear = {count: self._kind(f"bench.Clear{count}", count) for count in (1, 10)}
        self.sealed = {count: self._kind(f"bench.Sealed{count}", count, "unread") for count in (1, 10)}

    def _kind(self, name: str, count: int, *more: str) -> EventType:
        names = [*(f"a{n}" for n in range(count)), *more]
        return EventType.new(name, self.owner.public, [(each, AttributeType.STRING) for each in names], uuid4)

    def __iter__(self) -> Iterator[EventType]:
        return iter((*self.clear.values(), *self.sealed.values()))

    def chains(self, broker: Identity) -> dict[str, bytes]:
        """A broker's capabilities for the attributes of sealed types that events have."""
        return {kind.name: self._chain(kind, broker) for kind in self.sealed.values()}

    def _chain(self, kind: EventType, broker: Identity) -> bytes:
        names = {each.name for each in kind.attributes} - {"unread"}
        grant = Grant.of(Resource.of(Kind.TYPE, kind.name), [Right.PUBLISH, Right.SUBSCRIBE], names)
        capability = Capability(self.owner.public, broker.public, False, Authority.of(grant))
        return encode_chain([capability.sign(self.owner)])


async def throughput() -> dict[str, float]:
    """Events by processor time, of clients and brokers together: what else the machine does makes no difference."""
    async with NatsServer(jetstream=True) as server, contextlib.AsyncExitStack() as stack:
        kinds = Kinds(Identity.generate())
        bus = await stack.enter_async_context(Connection(server.url))
        await stack.enter_async_context(Replica(bus, Willing(), [Scope.parse(f"domain:{DOMAIN}")]))
        await _manage(kinds, bus, stack)
        services = [
            await stack.enter_async_context(_broker(server.url, name, kinds)) for name in ("one", "two")
        ]
        writer, reader = [
            await stack.enter_async_context(_client(server.url, name, kinds)) for name in ("one", "two")
        ]
        await _ready(services)
        routes = {kind.name: await Route.of(writer, reader, kind) for kind in kinds}
        gc.collect()
        gc.freeze()  # what is here now is not looked through again and again
        return await _compare_all(routes)


async def _compare_all(routes: Mapping[str, Route]) -> dict[str, float]:
    figures = {}
    for name, clear, other in (
        ("attr1", "Clear1", "Sealed1"),
        ("attr10", "Clear10", "Sealed10"),
    ):
        pairs = await _compare(routes[f"bench.{clear}"], routes[f"bench.{other}"])
        figures[f"{clear.lower()}_us"] = 1e6 * min(pairs)[0] / EVENTS
        figures[f"{name}_ratio"] = statistics.median(one / two for one, two in pairs)
    return figures


async def _compare(clear: Route, other: Route) -> list[tuple[float, float]]:
    """Seconds for each of the two, in short rounds next to each other, so that a slow moment strikes both.

    Turn and turn about: whoever comes second finds the machine as the first has left it.
    """
    pairs = []
    for number in range(WARM_UP + ROUNDS):
        if number % 2:
            one, two = await clear.measure(), await other.measure()
        else:
            two, one = await other.measure(), await clear.measure()
        pairs.append((one, two))
    return pairs[WARM_UP:]


async def _manage(kinds: Kinds, bus: Connection, stack: contextlib.AsyncExitStack) -> None:
    """Publish the types, and have their owner manage their keys."""
    catalogue = Catalogue()
    store = TypeStore(bus, catalogue)
    for kind in kinds:
        await store.publish(SignedType.sign(kind, kinds.owner))
    for kind in kinds.sealed.values():
        keyed = KeyedType.of(catalogue, kind.name)
        office = KeyDistribution(kinds.owner, keyed, Plan.each(keyed.names), keyed.verifier())
        await stack.enter_async_context(KeyManager(bus, office, pulse=60.0).serving())
    await bus.flush()


@contextlib.asynccontextmanager
async def _broker(url: str, name: str, kinds: Kinds) -> AsyncIterator[BrokerService]:
    identity, keys = Identity.generate(), {kinds.owner.public}
    word = vouch(identity.public, [ALL], time() + 10_000, kinds.owner)
    serving = Serving(
        url,
        name,
        DOMAIN,
        identity,
        clients={DOMAIN: keys},
        roots=keys,
        vouches=(word,),
        owner_keys=(kinds.owner,),
        sealed=kinds.chains(identity),
        unverified=True,
    )
    async with serve_broker(serving) as service:
        yield service


@contextlib.asynccontextmanager
async def _client(url: str, broker: str, kinds: Kinds) -> AsyncIterator[EventClient]:
    identity = Identity.generate()
    credential = Credential(str(identity.public), f"client-{broker}", DOMAIN, time() + 10_000)
    async with EventClient.connect(
        url, broker=broker, domain=DOMAIN, identity=identity, credential=issue(credential, kinds.owner)
    ) as client:
        yield client


async def _ready(services: Sequence[BrokerService]) -> None:
    """Wait until both brokers have their keys, and know of each other's."""

    def known(service: BrokerService) -> bool:
        peers = service.broker.peers.values()
        return len(service.sealing.vault.ring.groups) == GROUPS and any(
            len(peer.groups) == GROUPS for peer in peers
        )

    while not all(map(known, services)):  # noqa: ASYNC110 - what is waited for sets no event here
        await asyncio.sleep(0.05)


class Route:
    """The way of one type's events from a publisher at one broker to a subscriber at the other."""

    def __init__(self, publisher: Publisher, subscriber: Subscriber) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._names = [each.name for each in publisher.type.attributes if each.name != "unread"]

    @classmethod
    async def of(cls, writer: EventClient, reader: EventClient, kind: EventType) -> Route:
        subscriber = await reader.subscriber(kind.name)
        publisher = await writer.publisher(kind.name)
        while not publisher.interested:
            writer.interest_changed.clear()
            await writer.interest_changed.wait()
        return cls(publisher, subscriber)

    async def measure(self) -> float:
        """Seconds of processor time for all events, from the first sent to the last read."""
        gc.collect()
        gc.disable()
        start = process_time()
        sending = asyncio.create_task(self._send())
        for _ in range(EVENTS):
            event = await anext(self._subscriber)
            assert isinstance(event, Delivered)
            assert len(event.attributes) == len(self._names)
        await sending
        seconds = process_time() - start
        gc.enable()
        return seconds

    async def _send(self) -> None:
        for number in range(EVENTS):
            await self._publisher.publish(**{name: f"value {number} of {name}" for name in self._names})
            if number % 128 == 127:
                await asyncio.sleep(0)
        await self._publisher.flush()


def rekeying() -> dict[str, float]:
    """How many messages it takes to evict a member, and how long, for manager and members."""
    figures = {}
    for size in (16, 256, 4096):
        tree, keys = Tree(), {f"m{n}": os.urandom(32) for n in range(size)}
        tree.rekey(keys, join=keys)
        messages = [tree.rekey(keys, leave=[f"m{n}"]).cost for n in range(1, 4)]
        figures[f"rekey_messages_{size}"] = float(max(messages))
    evicted = iter(range(4, size))
    figures["rekey_ms_4096"] = 1e3 * best(
        lambda: tree.rekey(keys, leave=[f"m{next(evicted)}"]), clock=thread_time
    )
    figures["follow_ms_4096"] = 1e3 * min(_follow(tree, keys) for _ in range(7))
    return figures


def _follow(tree: Tree, keys: dict[str, bytes]) -> float:
    """Seconds in which one member takes up a new key."""
    member = Member(keys["m0"], tree.seat("m0"))
    change = tree.rekey(keys)
    start = thread_time()
    member.apply(change)
    return thread_time() - start


if __name__ == "__main__":
    main(run)
