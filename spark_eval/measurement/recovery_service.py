"""What a failure costs, live: the whole fabric is asked at a steady pace while parts of it are killed and come back.

Three secured NATS servers with the store, PDPs that follow a release, and brokers, each a process of its own; PEPs
with and without caches, whose answers rest on leases, and clients that publish and read events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from authz import PublicKey, Request
from bus.identity import Credentials
from pep import Enforcer, Recycling
from spark_eval.experiment import FIGURE, STRUCK, Cell, Population, Recovery, cell_columns, draw_grants
from spark_eval.measurement.fabric_service import role_policies
from spark_eval.measurement.measurement import Measurement
from spark_eval.measurement.response_service import RECYCLINGS, draw_requests
from spark_eval.runtime import Advance
from spark_eval.schemas import LIVE, TRACE

PEOPLE = Population(objects=30, subjects=100, roles=10)
"""Of 3,000 questions that can be asked, caches have seen a part answered before."""
ASKED = 5_000
"""Questions after which the same are asked again."""
BEFORE, AFTER, LONGEST = 2.0, 3.0, 90.0
"""Seconds for which it is asked before the strike, after the last question that failed, and at most after the start."""


class Answer(NamedTuple):
    """What became of a question, or of an event: whether the answer came in time, and whether from a cache."""

    answered: bool
    recycled: bool = False


Asker: TypeAlias = Callable[[int], Awaitable[Answer]]
"""Asks a question, or publishes an event, by its number."""


@dataclass(frozen=True, slots=True)
class Strike:
    """Kills something; and starts it again, which takes as long as it takes."""

    kill: Callable[[], Awaitable[None]]
    start: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WholeFabric:
    """A fabric that can be struck, by what is struck; how services ask it; and clients that publish and read."""

    url: str
    domain: str
    trust: PublicKey
    credentials: Credentials
    strikes: Mapping[str, Strike]
    events: Mapping[str, Asker]


class Whole(Protocol):
    """Starts a whole fabric with these role policies, for the length of a block."""

    def __call__(
        self, policies: str, deadline: float
    ) -> contextlib.AbstractAsyncContextManager[WholeFabric]: ...


def count_strikes(plan: Recovery) -> int:
    return plan.times * len(STRUCK)


def recovery_measurements(plan: Recovery, seed: int, whole: Whole) -> Iterator[Measurement]:
    """Everything struck in turn, in a fabric of its own each time."""

    async def strike_all(run: int, advance: Advance) -> pa.Table:
        tables = []
        async with whole(role_policies(draw_grants(PEOPLE, seed)), plan.deadline) as fabric:
            for struck, strike in fabric.strikes.items():
                async with _peps(plan, seed, f"{struck} {run}", fabric) as peps:
                    observed = await _Observation({**peps, **fabric.events}, plan).watch(
                        strike, plan.seconds(struck)
                    )
                tables += [_rows(struck, asker, run, rows) for asker, rows in observed.items()]
                advance(1)
        return pa.concat_tables(tables)

    for run in range(plan.times):
        yield Measurement(f"strikes, time {run + 1}", partial(strike_all, run))


@contextlib.asynccontextmanager
async def _peps(plan: Recovery, seed: int, name: str, fabric: WholeFabric) -> AsyncIterator[dict[str, Asker]]:
    """PEPs that have learned the same, each its own way."""
    learned = draw_requests(_asking(plan.learned), seed, f"{name} learned")
    asked = draw_requests(_asking(ASKED), seed, f"{name} asked")
    async with contextlib.AsyncExitStack() as stack:
        found: dict[str, Asker] = {}
        for variant, recycling in RECYCLINGS.items():
            pep = await stack.enter_async_context(_connect(fabric, recycling))
            if pep.secondary is not None:
                await pep.secondary.feed.ready.wait()
                for request in learned:
                    await pep.check(request)
            found[variant] = partial(_ask, pep, asked, plan.deadline)
        yield found


def _asking(requests: int) -> Population:
    return Population(requests, PEOPLE.objects, PEOPLE.subjects, PEOPLE.roles)


def _connect(
    fabric: WholeFabric, recycling: Recycling | None
) -> contextlib.AbstractAsyncContextManager[Enforcer]:
    return Enforcer.connect(
        fabric.url,
        domain=fabric.domain,
        recycling=recycling,
        trust=[fabric.trust],
        credentials=fabric.credentials,
        audit=False,
    )


async def _ask(pep: Enforcer, requests: list[Request], deadline: float, number: int) -> Answer:
    decision = await pep.check(requests[number % len(requests)], deadline=deadline)
    return Answer(decision.decided, decision.decided and decision.inferred is not None)


class Asked(NamedTuple):
    """A question: when it was asked and answered, in seconds from the strike."""

    at: float
    seconds: float
    answer: Answer


@dataclass
class _Observation:
    """Everyone asks at the plan's pace, whether earlier questions are answered or not."""

    askers: Mapping[str, Asker]
    plan: Recovery
    logs: dict[str, list[Asked]] = field(default_factory=dict)
    failed: float = 0.0
    """When the last question that failed was asked."""

    async def watch(self, strike: Strike, away: float) -> dict[str, list[Asked]]:
        """Strike, start again, and watch until all is answered again.

        What was asked within a deadline of the end is left out: it was not known then whether it is answered.
        """
        self.logs = {asker: [] for asker in self.askers}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask_all(group))
            await asyncio.sleep(BEFORE)
            struck = perf_counter()
            await strike.kill()
            await asyncio.sleep(max(0.0, struck + away - perf_counter()))
            await strike.start()
            started = perf_counter()
            while perf_counter() < max(started, self.failed) + AFTER + self.plan.deadline:
                if perf_counter() > started + LONGEST:
                    break
                await asyncio.sleep(self.plan.pace / 1000)
            settled = perf_counter() - self.plan.deadline
            asking.cancel()
        return {
            asker: [each._replace(at=each.at - struck) for each in log if each.at <= settled]
            for asker, log in self.logs.items()
        }

    async def _ask_all(self, group: asyncio.TaskGroup) -> None:
        start, number = perf_counter(), 0
        while True:
            await asyncio.sleep(max(0.0, start + number * self.plan.pace / 1000 - perf_counter()))
            for asker in self.askers:
                group.create_task(self._ask(asker, number))
            number += 1

    async def _ask(self, asker: str, number: int) -> None:
        at = perf_counter()
        answer = await self.askers[asker](number)
        if not answer.answered:
            self.failed = max(self.failed, at)
        self.logs[asker].append(Asked(at, perf_counter() - at, answer))


def _rows(struck: str, asker: str, run: int, asked: list[Asked]) -> pa.Table:
    count = len(asked)
    numbers = pa.array(range(count), pa.int32())
    columns = {
        "source": pa.repeat(LIVE, count),
        "figure": pa.repeat(f"{FIGURE}{struck}", count),
        "variant": pa.repeat(asker, count),
        **cell_columns(Cell(1, 1.0), count),
        "run": pa.repeat(pa.scalar(run, pa.int32()), count),
        "batch": numbers,
        "request": numbers,
        "requests": pa.repeat(pa.scalar(1, pa.int32()), count),
        "failed": pa.array([not each.answer.answered for each in asked]).cast(pa.int32()),
        "recycled": pa.array([each.answer.recycled for each in asked]).cast(pa.int32()),
        "asked": pa.nulls(count, pa.float64()),
        "at": pa.array([each.at for each in asked], pa.float64()),
        "seconds": pa.array([each.seconds if each.answer.answered else None for each in asked], pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
