"""The whole fabric for experiments: three secured servers, PDPs and brokers, each of which can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time

from authfabric.chaos.record import Recorder
from authfabric.chaos.runner.bounds import bounded
from authfabric.chaos.testbed import BROKERS, NODES, EventService, Members, cluster
from authfabric.chaos.workload import DOMAIN, TYPE, Client, policy_file
from authz import AuthFabricError, Identity, PublicKey
from bus.identity import load_key, read_credentials
from bus.nats import connect
from pdp.bundle import Bundle, File
from pdp.releases import Publisher
from pubsub_core.client import Delivered, EventClient
from spark_eval.experiment import (
    ALL_PDPS,
    ALL_SERVERS,
    EVENTS_ONE,
    EVENTS_TWO,
    ONE_BROKER,
    ONE_PDP,
    ONE_SERVER,
)
from spark_eval.measurement import Answer, Strike, WholeFabric

PDPS = ("pdp-1", "pdp-2")
PEOPLE = "people"
"""The domain that PEPs ask about. Events have another, with a PDP of its own that brokers ask whom to let in."""
EVENTS_PDP = "pdp-3"
ACCESSES = ("access-1", "access-2")
START_SECONDS = 180.0
AGAIN_SECONDS = 0.2
"""After which a client whose session was lost begins another."""


@contextlib.asynccontextmanager
async def whole_fabric(policies: str, deadline: float) -> AsyncIterator[WholeFabric]:
    """Run it for the length of a block."""
    with tempfile.TemporaryDirectory(prefix="authfabric-") as name, _without_warnings():
        folder = Path(name)
        record = Recorder(folder / "record")
        async with (
            cluster.running(folder, record, small_disk=False) as servers,
            contextlib.AsyncExitStack() as stack,
        ):
            members = Members(servers, folder, record, Identity.generate())
            stack.push_async_callback(members.stop)
            await asyncio.gather(*map(members.add_access, ACCESSES))
            url = await servers.connect("experiment")
            await _release(members, url, policies)
            await asyncio.gather(*(members.add_pdp(pdp, PEOPLE) for pdp in PDPS), members.add_pdp(EVENTS_PDP))
            service = EventService(members)
            await service.define(url)
            await asyncio.gather(*map(service.add_broker, BROKERS))
            asked = {}
            for asker, brokers in ((EVENTS_ONE, BROKERS[:1]), (EVENTS_TWO, BROKERS)):
                sensor, reader = (
                    service.client(f"{role}-{len(brokers)}", brokers[0], role)
                    for role in ("sensor", "reader")
                )
                access = members.credentials("clients")
                events = Events(url, access, service.owner, brokers, sensor, reader, deadline)
                asked[asker] = (await stack.enter_async_context(events.running())).ask
            yield WholeFabric(
                url,
                PEOPLE,
                members.root.public,
                read_credentials(members.credentials("pep")).credentials,
                _strikes(members, servers),
                asked,
            )
        record.close()


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Say nothing of what is lost: that is the plan."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


async def _release(members: Members, url: str, role_policies: str) -> None:
    operator = members.credentials("operator", "network: *\naction: connect|install")
    files = {DOMAIN: File("events.yaml", policy_file(())), PEOPLE: File("roles.oasis", role_policies)}
    async with connect(url, name="experiment", credentials=read_credentials(operator).credentials) as bus:
        for domain, file in files.items():
            await Publisher(bus, domain, members.root, (), time).push(Bundle.of([file]))


def _strikes(members: Members, servers: cluster.Cluster) -> dict[str, Strike]:
    async def kill(names: Sequence[str]) -> None:
        await asyncio.gather(*map(members.kill, names))

    async def start(names: Sequence[str]) -> None:
        await asyncio.gather(*map(members.start, names))

    async def kill_nodes(names: Sequence[str]) -> None:
        await asyncio.gather(*(servers.stop_node(name, signal.SIGKILL) for name in names))

    async def start_nodes(names: Sequence[str]) -> None:
        await asyncio.gather(*map(servers.start_node, names))

    def of(names: Sequence[str]) -> Strike:
        return Strike(partial(kill, names), partial(start, names))

    def of_nodes(names: Sequence[str]) -> Strike:
        return Strike(partial(kill_nodes, names), partial(start_nodes, names))

    return {
        ONE_PDP: of(PDPS[:1]),
        ALL_PDPS: of((*PDPS, EVENTS_PDP)),
        ONE_SERVER: of_nodes(NODES[:1]),
        ONE_BROKER: of(BROKERS[:1]),
        ALL_SERVERS: of_nodes(NODES),
    }


@dataclass
class Events:
    """A client that publishes, and one that reads what it publishes, both by these brokers."""

    url: str
    access: Path
    owner: PublicKey
    brokers: Sequence[str]
    sensor: Client
    reader: Client
    deadline: float
    _waiting: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    _queue: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    _next: int = 0

    async def ask(self, _: int) -> Answer:
        """Publish an event. It is answered when the reader has it."""
        number, self._next = self._next, self._next + 1
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(number)
        try:
            async with asyncio.timeout(self.deadline):
                await self._waiting[number]
        except TimeoutError:
            return Answer(False)
        finally:
            del self._waiting[number]
        return Answer(True)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Events]:
        """Both have a session, and another whenever one is lost."""
        ready = [asyncio.Event(), asyncio.Event()]
        tasks = [
            asyncio.create_task(self._keep(self.sensor, self._publish, ready[0])),
            asyncio.create_task(self._keep(self.reader, self._read, ready[1])),
        ]
        try:
            for each in ready:
                await bounded("beginning to publish and read events", each.wait(), START_SECONDS)
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(
        self,
        client: Client,
        work: Callable[[EventClient, asyncio.Event], Awaitable[None]],
        ready: asyncio.Event,
    ) -> None:
        identity = load_key(Path(client.key), str)
        credential = Path(client.credential).read_bytes()  # noqa: ASYNC240 - a small file, once
        while True:
            with contextlib.suppress(AuthFabricError):
                async with EventClient.connect(
                    self.url,
                    brokers=self.brokers,
                    domain=DOMAIN,
                    identity=identity,
                    credential=credential,
                    trust={self.owner},
                    access=read_credentials(self.access).credentials,
                ) as connected:
                    await work(connected, ready)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _publish(self, connected: EventClient, ready: asyncio.Event) -> None:
        publisher = await connected.publisher(TYPE)
        ready.set()
        while True:
            number = await self._queue.get()
            await publisher.publish(publisher=self.sensor.name, number=number, value="")

    async def _read(self, connected: EventClient, ready: asyncio.Event) -> None:
        events = await connected.subscriber(TYPE)
        ready.set()
        async for event in events:
            if isinstance(event, Delivered) and event["publisher"] == self.sensor.name:
                arrived = self._waiting.get(int(str(event["number"])))
                if arrived is not None and not arrived.done():
                    arrived.set_result(None)
