"""Clients of the event service under load: one publishes at each broker, others read. Run as a process of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from time import monotonic, time

import msgspec

from authfabric.chaos.record import Delivered, GapTold, Published, Recorder, Subscribed
from authfabric.chaos.workload.policies import DOMAIN, TYPE
from authfabric.terminal import print_json
from authz import AuthFabricError, PublicKey
from bus.identity import load_key, read_credentials
from bus.runtime import run_fast
from pubsub_core.client import Delivered as Event
from pubsub_core.client import EventClient
from pubsub_core.errors import EventError, SessionLost

FEW = 5
"""Events that are published before it is asked whether they were taken."""
PAUSE_SECONDS = 0.25
AGAIN_SECONDS = 1.0
"""Time after which a client that could not begin, or whose session has ended, begins again."""
FINISH_SECONDS = 60.0
"""How long readers may take at the end to receive what was acknowledged."""


class Client(msgspec.Struct, frozen=True):
    """Somebody who publishes or reads."""

    name: str
    broker: str
    publishes: bool
    key: str
    """The file of its key."""
    credential: str
    """The file of what its domain says about it."""
    may_see: tuple[str, ...] = ()
    live: bool = False
    """Whether it reads what is published from now on, and not what was before."""


class EventLoad(msgspec.Struct, frozen=True):
    """What the process is told to do."""

    url: str
    owner: str
    """The key of whoever owns the type."""
    access: str
    """The file of credentials by which all of them connect."""
    record: str
    clients: tuple[Client, ...]


class Clients:
    """The clients of one process."""

    def __init__(self, carrying: EventLoad, record: Recorder) -> None:
        self._carrying = carrying
        self._record = record
        self._began = time()
        self.taken: set[tuple[str, int]] = set()
        self.newest: dict[str, tuple[str, int]] = {}
        """The newest event of each client that was taken."""
        self.received: dict[str, set[tuple[str, int]]] = {}
        """What each reader has that asked for the past, too."""
        self.seen: dict[str, set[tuple[str, int]]] = {}
        """What each other has."""

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until told to stop; then read until all that was taken has been received."""
        begun = [asyncio.Event() for _ in self._carrying.clients]
        tasks = [
            asyncio.create_task(self._keep(each, self._publish if each.publishes else self._read, event))
            for each, event in zip(self._carrying.clients, begun, strict=True)
        ]
        try:
            await asyncio.gather(*(each.wait() for each in begun))
            print_json({"url": self._carrying.url})
            await stop.wait()
            for each, task in zip(self._carrying.clients, tasks, strict=True):
                if each.publishes:
                    task.cancel()
            await self._finish()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _finish(self) -> None:
        deadline = monotonic() + FINISH_SECONDS
        while monotonic() < deadline and self._owed:  # noqa: ASYNC110 - readers have no event for it
            await asyncio.sleep(PAUSE_SECONDS)

    @property
    def _owed(self) -> bool:
        """Whether some reader has not received all that was taken, or not the newest."""
        newest = set(self.newest.values())
        return any(self.taken - each for each in self.received.values()) or any(
            newest - each for each in self.seen.values()
        )

    async def _keep(
        self,
        client: Client,
        work: Callable[[Client, EventClient, str, asyncio.Event], Coroutine[object, object, None]],
        begun: asyncio.Event,
    ) -> None:
        """Begin, and begin again whenever it has ended, under another name."""
        identity = load_key(Path(client.key), str)
        credential = await asyncio.to_thread(Path(client.credential).read_bytes)
        owner = PublicKey.parse(self._carrying.owner)
        access = read_credentials(Path(self._carrying.access)).credentials
        for number in count(1):
            name = f"{client.name}.{number}"
            try:
                async with EventClient.connect(
                    self._carrying.url,
                    broker=client.broker,
                    domain=DOMAIN,
                    identity=identity,
                    credential=credential,
                    trust={owner},
                    access=access,
                ) as connected:
                    await work(client, connected, name, begun)
            except AuthFabricError as error:
                self.received.pop(name, None)
                self.seen.pop(name, None)
                if not client.publishes:
                    self._record(GapTold(monotonic(), name, str(error)))
            await asyncio.sleep(AGAIN_SECONDS)

    async def _publish(self, client: Client, connected: EventClient, name: str, begun: asyncio.Event) -> None:
        publisher = await connected.publisher(TYPE)
        begun.set()
        number = 0
        while True:
            at, start = monotonic(), number
            try:
                for number in range(start, start + FEW):
                    await publisher.publish(publisher=name, number=number, value=f"secret {number}")
                await publisher.flush()
            except SessionLost:
                raise
            except EventError:
                pass  # it was told that not all of them were taken
            else:
                self._record(Published(at, monotonic(), name, start, start + FEW))
                self.taken |= {(name, each) for each in range(start, start + FEW)}
                self.newest[client.name] = (name, start + FEW - 1)
            number = start + FEW
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self, client: Client, connected: EventClient, name: str, begun: asyncio.Event) -> None:
        asked = monotonic()
        events = await connected.subscriber(TYPE, from_=None if client.live else self._began)
        at = monotonic() if client.live else asked
        self._record(Subscribed(at, name, client.may_see, whole=not client.live))
        received = (self.seen if client.live else self.received).setdefault(name, set())
        begun.set()
        async for event in events:
            if not isinstance(event, Event):
                self._record(GapTold(monotonic(), name, str(event)))
                continue
            publisher, number = str(event["publisher"]), int(str(event["number"]))
            shown = tuple(sorted(each for each, value in event.attributes.items() if value is not None))
            self._record(Delivered(monotonic(), name, publisher, number, shown, event.replayed))
            received.add((publisher, number))


async def carry(carrying: EventLoad) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Clients(carrying, Recorder(Path(carrying.record))).run(stop)


def main() -> None:
    run_fast(carry(msgspec.json.decode(sys.argv[1], type=EventLoad)))


if __name__ == "__main__":
    main()
