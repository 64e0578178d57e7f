"""Small fabrics for the length of an experiment: a NATS server or an event service, and PDPs, each a process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Protocol

import msgspec

from authz import Entity, PublicKey, Request
from bus.identity import Credentials
from bus.runtime import ServingProcess, all_or_none
from bus.server import NatsServer
from spark_eval.experiment import Flags, Population
from spark_eval.measurement.hosts import HERE, Host
from spark_eval.measurement.replica_service import Kind, ReplicaTask

START_SECONDS = 240.0
"""How long a PDP that is starting may say nothing: many start at once on one machine."""
STARTING = 8
"""How many PDPs start at the same time."""
ACTION = "read"
_PDP = "from spark_eval.measurement.replica_service import main; main()"
_EVENTS = (sys.executable, "-c", "from spark_eval.measurement.event_service import main; main()")


@dataclass(frozen=True, slots=True)
class Running:
    """A fabric that runs: the server's URL, and the TCP address of each PDP, in order."""

    url: str
    direct: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShippedFabric:
    """A fabric as it is shipped: where it is, whose word counts, and the processes of `pdp serve`."""

    url: str
    trust: PublicKey
    credentials: Credentials | None
    pdps: Sequence[ServingProcess]
    server: NatsServer | None = None


class Shipped(Protocol):
    """Starts a fabric as it is shipped, whose PDPs follow a release of the policies in a folder."""

    def __call__(
        self, policies: Path, pdps: int, *, secure: bool = False
    ) -> contextlib.AbstractAsyncContextManager[ShippedFabric]: ...


@contextlib.asynccontextmanager
async def run_fabric(tasks: Iterable[ReplicaTask], hosts: Sequence[Host] = ()) -> AsyncIterator[Running]:
    """Run a server, and a PDP for each task, which need not know the server's URL: here, or on these hosts in turn."""
    places = hosts or (HERE,)
    async with NatsServer(host=places[0].here) as server, contextlib.AsyncExitStack() as stack:
        turn = asyncio.Semaphore(STARTING)

        async def start(task: ReplicaTask, host: Host) -> ServingProcess:
            told = msgspec.structs.replace(task, url=server.url, host=host.there)
            async with turn:
                return await stack.enter_async_context(replica(told, host))

        started = await all_or_none(map(start, tasks, cycle(places)))
        yield Running(server.url, tuple(each.ready.url for each in started))


@contextlib.asynccontextmanager
async def run_content_fabric(task: ReplicaTask) -> AsyncIterator[str]:
    """Run an event service with filters, and a PDP on it; gives the event service's address."""
    events = await ServingProcess.run("experiment-events", _EVENTS, seconds=START_SECONDS, line=b"{}")
    try:
        address = events.ready.url
        async with replica(msgspec.structs.replace(task, url=address, kind=Kind.CONTENT)):
            yield address
    finally:
        await events.stop()


@contextlib.asynccontextmanager
async def replica(task: ReplicaTask, host: Host = HERE) -> AsyncIterator[ServingProcess]:
    """A PDP process for the length of a block. Raises ProcessFailed."""
    line = msgspec.json.encode(task)
    running = await ServingProcess.run("experiment-pdp", host.command(_PDP), seconds=START_SECONDS, line=line)
    try:
        yield running
    finally:
        await running.stop()


def object_name(number: int) -> str:
    return f"/objects/{number}"


def make_request(population: Population, subject: int, thing: int, context: dict[str, object]) -> Request:
    """A subject with its one role asks to read an object."""
    asker = Entity(f"subject-{subject}", {"roles": [role_name(subject % population.roles)]})
    return Request.of(asker, object_name(thing), ACTION, context)


def role_name(number: int) -> str:
    return f"role{number}"


def role_policies(grants: Flags) -> str:
    """The policies of every PDP as OASIS rules: what each role may read."""
    roles = ", ".join(map(role_name, range(len(grants))))
    rules = [
        f'r{role}_{thing}: {role_name(role)} |- privilege({ACTION}, "{object_name(thing)}")'
        for role, granted in enumerate(grants)
        for thing in granted.nonzero()[0].tolist()
    ]
    return "\n".join([f"role {roles}", *rules, ""])
