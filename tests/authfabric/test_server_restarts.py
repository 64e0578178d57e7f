"""Two brokers and a key manager, as processes on a secured server that is restarted: events flow again, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from authfabric.processes.launcher import ReplicaProcess
from authfabric.scenarios.testbed import Domain, stage
from bus.identity.keystore import load_key
from pubsub_core.client.publisher import Publisher
from pubsub_core.client.subscriber import Subscriber
from tests.authfabric.test_secured_events import PLATE, POLICIES, install, run
from tests.pubsub_core.town import next_event
from tests.waiting import PATIENCE

BROKERS = ("north", "south")


@dataclass
class Side:
    """One of two brokers, with a client that publishes and reads there."""

    name: str
    publisher: Publisher
    events: Subscriber


@dataclass
class Country:
    """Two brokers of a domain, whose events are sealed."""

    domain: Domain
    sides: tuple[Side, Side]

    async def restart_server(self, sig: signal.Signals) -> None:
        server = self.domain.server
        assert server is not None
        await server.stop(sig)
        await server.start()

    async def exchange(self, marks: count[int]) -> None:
        """Return when an event of each side has come to the other."""
        await asyncio.gather(*(self._cross(a, b, next(marks)) for a, b in (self.sides, reversed(self.sides))))

    async def _cross(self, here: Side, there: Side, mark: int) -> None:
        """Publish until what is published arrives: what goes out while brokers have not met again is not owed."""
        wanted = f"{here.name} {mark}"

        async def read() -> None:
            while not str((await next_event(there.events))["plate"]).startswith(wanted):
                pass

        reading = asyncio.create_task(read())
        async with asyncio.timeout(PATIENCE):
            for number in count():
                await here.publisher.publish(plate=f"{wanted} {number}", place="Soho")
                await here.publisher.flush()
                done, _ = await asyncio.wait([reading], timeout=0.2)
                if done:
                    break
        await reading


@pytest.fixture
def files(tmp_path, monkeypatch) -> None:
    """A signed type, who manages its keys, and the brokers that may have them."""
    monkeypatch.chdir(tmp_path)
    for name in ("pito", "manager", *BROKERS):
        run("cap", "keygen", name, "--unencrypted")
    run("type", "new", PLATE, "plate:string", "place:string", "--owner", "pito.pub", "--out", "draft.json")
    run("type", "sign", "draft.json", "--key", "pito.key", "--out", "plate.type")
    run("keys", "appoint", "plate.type", "--key", "pito.key", "--to", "manager.pub", "--out", "appointed")
    for name in BROKERS:
        words = ("cap", "issue", "--key", "pito.key", "--to", f"{name}.pub", "--out", f"{name}.cap")
        run(*words, f"type: {PLATE}", "action: publish|subscribe")


@contextlib.asynccontextmanager
async def country(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Country]:
    async with stage(["met"]) as (met,), contextlib.AsyncExitStack() as stack:
        await install(met, monkeypatch, "type", "publish", "plate.type")
        await met.release(POLICIES)
        serve = ["keys", "serve", PLATE, "--key", "manager.key", "--appointment", "appointed"]
        met.processes["manager"] = await ReplicaProcess.launch(
            "manager", [*serve, "--url", met.url], met.access("manager", "connect|install")
        )
        await met.start_pdp()
        owner = load_key(Path("pito.key"), str)
        for name in BROKERS:
            sealed = ["--sealed", f"{PLATE}={name}.cap"]
            identity = load_key(Path(f"{name}.key"), str)
            await met.start_broker([met], owner, sealed, name, identity)
        sides = []
        for name in BROKERS:
            client = await stack.enter_async_context(met.client(f"client-{name}", {}, broker=name))
            sides.append(Side(name, await client.publisher(PLATE), await client.subscriber(PLATE)))
        yield Country(met, (sides[0], sides[1]))


def is_ready(process: ReplicaProcess) -> bool:
    try:
        with urlopen(f"{process.ready.health}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


async def ready(process: ReplicaProcess) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await asyncio.to_thread(is_ready, process):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)


async def restarts(country: Country, number: int) -> None:
    marks = count()
    await country.exchange(marks)
    for turn in range(number):
        await country.restart_server(signal.SIGKILL if turn % 2 else signal.SIGTERM)
        await country.exchange(marks)
        for name in BROKERS:
            await ready(country.domain.processes[name])
        if turn % 4 == 1:  # whoever starts anew needs its keys, and the manager's state
            await country.domain.restart_broker(BROKERS[turn // 4 % 2])
            await country.exchange(marks)


async def test_events_flow_both_ways_and_keys_are_given_again_after_a_restart_of_the_server(
    files, monkeypatch
):
    async with country(monkeypatch) as made:
        await restarts(made, 2)


@pytest.mark.cluster
@pytest.mark.timeout(1200)
async def test_twenty_restarts_of_the_server_leave_no_connection_stuck(files, monkeypatch):
    async with country(monkeypatch) as made:
        await restarts(made, 20)
