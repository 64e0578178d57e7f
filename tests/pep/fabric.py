"""Small fabrics to test against: replicas and a PEP in this process, a real server between them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from bus import Connection, Scope
from bus.wire.messages import Questions, unpack_questions
from pdp.replica.announcement import Announcer
from pdp.replica.service import Decider, Replica
from pep import UNVERIFIED, Enforcer, Strategy
from tests.waiting import eventually


@contextlib.asynccontextmanager
async def serving(url: str, decider: Decider, *scopes: str, **options) -> AsyncIterator[Replica]:
    """A replica with a connection of its own, for the length of a block."""
    served = [Scope.parse(text) for text in scopes or ("domain:default",)]
    async with Connection(url) as connection, Replica(connection, decider, served, **options) as replica:
        yield replica


@contextlib.asynccontextmanager
async def serving_unannounced(url: str, decider: Decider, *scopes: str, **options) -> AsyncIterator[Replica]:
    """A replica that says that it is there, and not what it serves."""
    async with serving(url, decider, *scopes, **options) as replica:
        replica._announcer = Announcer([], replica.authority)
        yield replica


@contextlib.asynccontextmanager
async def asking(
    url: str,
    *announced: str,
    strategy: Strategy | str = Strategy.HEDGE,
    deadline: float = 10.0,
    domain: str = "default",
    patient: bool = False,
) -> AsyncIterator[Enforcer]:
    """A PEP that has heard these scopes announced. A patient one hedges nothing, however slow the machine is."""
    async with Enforcer.connect(
        url, strategy=strategy, deadline=deadline, domain=domain, trust=UNVERIFIED
    ) as pep:
        await eventually(lambda: all(Scope.parse(text) in pep.asker.scopes for text in announced))
        if patient:
            pep.asker.hedge.seconds = 30.0
        yield pep


@dataclass
class Wiretap:
    """Every question on the bus, as it was sent. Whoever listens so makes it seem that somebody serves everything."""

    bus: Connection
    heard: list[tuple[str, Questions]] = field(default_factory=list)

    def __call__(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        self.heard.append((subject, unpack_questions(payload)))

    async def subjects(self, pep: Enforcer) -> list[str]:
        """Where the PEP has asked so far."""
        await pep.asker.connection.flush()
        await self.bus.flush()
        return [subject for subject, _ in self.heard]

    async def modes(self, pep: Enforcer) -> list[str]:
        return [subject.split(".")[2] for subject in await self.subjects(pep)]


@contextlib.asynccontextmanager
async def wiretap(url: str) -> AsyncIterator[Wiretap]:
    async with Connection(url) as bus:
        tap = Wiretap(bus)
        await bus.listen("af.ask.>", tap)
        await bus.flush()
        yield tap
