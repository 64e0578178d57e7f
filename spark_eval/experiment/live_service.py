"""The availability experiment run live: real NATS, real PDP processes that fail on schedule, a real PEP.

The worlds are those of the simulation, so a live run can be compared with its simulated twin request by request.
Every cell is a domain of its own in one fabric, and its point-to-point baseline another, which only the first PDP
serves: both get the same requests at the same time, and meet the same failures.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from authz import Decision
from pep import Enforcer
from spark_eval.errors import EvaluationError
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.fabric_service import make_request, object_name, role_policies, run_fabric
from spark_eval.experiment.plan import Availability
from spark_eval.experiment.replica_service import NUMBER, RUN, ReplicaTask
from spark_eval.experiment.simulation import cell_columns, draw_task, tasks
from spark_eval.experiment.world import Flags, World, draw_grants
from spark_eval.progress import Advance
from spark_eval.schemas import LIVE, P2P, PUBSUB, TRACE

BATCHES = 10
"""Parts of a run that count as independent: each is long against the time a failure lasts."""
IN_FLIGHT = 16
PATIENCE = 0.05
"""Seconds after which a request that still waits no longer keeps others from being asked."""


class WrongAnswer(EvaluationError):
    """A PDP decided otherwise than its policies say: the experiment is worth nothing."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(f"a PDP answered wrongly: {decision}")
        self.decision = decision


class Answer(NamedTuple):
    """What became of one request."""

    failed: bool
    seconds: float


Answers: TypeAlias = Mapping[str, Sequence[Answer]]
"""By variant, and in the order of the requests."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cell in the fabric of one run: its name there, and its world."""

    name: str
    cell: Cell
    world: World
    row: int
    """Which run of the world it is."""
    run: int
    """And which of the experiment."""

    @property
    def domains(self) -> dict[str, str]:
        """By variant: where to ask."""
        return {P2P: f"{self.name}-own", PUBSUB: self.name}


async def run_live(plan: Availability, seed: int, advance: Advance) -> pa.Table:
    """The trace of every live run of the plan; `advance` is told how many requests are done."""
    asked: list[tuple[Place, Answers]] = []
    grants = draw_grants(plan.population, seed)
    for run in range(plan.live_runs):
        places = find_places(plan, seed, run)
        async with run_fabric(replica_tasks(places, role_policies(grants))) as url:
            asked += [(p, await _run_place(p, plan.population, grants, url, advance)) for p in places]
    # Not before all fabrics are gone: whoever computes for long without listening is taken for dead.
    tables = [_rows(place, variant, each) for place, answers in asked for variant, each in answers.items()]
    return pa.concat_tables([TRACE.empty_table(), *tables])


def find_places(plan: Availability, seed: int, run: int) -> list[Place]:
    """The cells of one live run, each with the world that the simulation gives the run of this number."""
    cells = plan.live_cells()
    found = [t for t in tasks(plan, seed) if t.cell in cells and 0 <= run - t.first_run < t.runs]
    return [
        Place(f"cell{number}", task.cell, draw_task(task), run - task.first_run, run)
        for number, task in enumerate(found)
    ]


def replica_tasks(places: Sequence[Place], policies: str) -> list[ReplicaTask]:
    """What each PDP serves, and when it fails, over all cells that have it."""
    return [
        ReplicaTask(
            url="",
            scopes=[
                scope for place in places if number < place.cell.pdps for scope in _scopes(place, number)
            ],
            policies=policies,
            failures={
                place.name: spans(~place.world.up[place.row, number])
                for place in places
                if number < place.cell.pdps
            },
        )
        for number in range(max((place.cell.pdps for place in places), default=0))
    ]


def spans(flags: Flags) -> list[tuple[int, int]]:
    """The half-open spans of places in which the flags are set."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return [(start, end) for start, end in edges.reshape(-1, 2).tolist()]


def _scopes(place: Place, number: int) -> Iterator[str]:
    if number == 0:
        yield f"domain:{place.domains[P2P]}"
    for thing in place.world.serves[place.row, number].nonzero()[0].tolist():
        yield f"object@{place.domains[PUBSUB]}:{object_name(thing)}"


async def _run_place(
    place: Place, population: Population, grants: Flags, url: str, advance: Advance
) -> Answers:
    async with contextlib.AsyncExitStack() as stack:
        peps = {
            variant: await stack.enter_async_context(Enforcer.connect(url, domain=domain, recycling=None))
            for variant, domain in place.domains.items()
        }
        asking = _Asking(place, population, grants, peps, advance)
        numbers = range(population.requests)
        answers = await asyncio.gather(
            *(asking.ask(variant, number) for number in numbers for variant in peps)
        )
    return {variant: answers[turn :: len(peps)] for turn, variant in enumerate(peps)}


class _Asking:
    """Asks the requests of one place, so many at a time."""

    def __init__(
        self,
        place: Place,
        population: Population,
        grants: Flags,
        peps: Mapping[str, Enforcer],
        advance: Advance,
    ) -> None:
        self._place = place
        self._population = population
        self._grants = grants
        self._peps = peps
        self._advance = advance
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def ask(self, variant: str, number: int) -> Answer:
        async with self._slots:
            answer = asyncio.ensure_future(self._ask(variant, number))
            await asyncio.wait([answer], timeout=PATIENCE)
        return await answer

    async def _ask(self, variant: str, number: int) -> Answer:
        world, row = self._place.world, self._place.row
        subject, thing = int(world.subjects[row, number]), int(world.objects[row, number])
        context: dict[str, object] = {RUN: self._place.name, NUMBER: number}
        request = make_request(self._population, subject, thing, context)
        # Only questions with equal deadlines travel together. These travel alone, and so are lost one by one.
        deadline = self._population.deadline + number * 1e-9
        start = perf_counter()
        decision = await self._peps[variant].check(
            request, deadline=deadline, strategy=self._place.cell.strategy
        )
        seconds = perf_counter() - start
        if decision.decided and decision.allowed != self._grants[subject % self._population.roles, thing]:
            raise WrongAnswer(decision)
        self._advance(1)
        return Answer(not decision.decided, seconds)


def _rows(place: Place, variant: str, answers: Sequence[Answer]) -> pa.Table:
    count = len(answers)
    numbers = np.arange(count, dtype=np.int32)
    columns = {
        "source": pa.repeat(LIVE, count),
        "figure": pa.repeat("", count),
        "variant": pa.repeat(variant, count),
        **cell_columns(place.cell, count),
        "run": pa.repeat(pa.scalar(place.run, pa.int32()), count),
        "batch": pa.array(numbers * BATCHES // count),
        "request": pa.array(numbers),
        "requests": pa.repeat(pa.scalar(1, pa.int32()), count),
        "failed": pa.array([answer.failed for answer in answers]).cast(pa.int32()),
        "recycled": pa.repeat(pa.scalar(0, pa.int32()), count),
        "asked": pa.nulls(count, pa.float64()),
        "seconds": pa.array([None if answer.failed else answer.seconds for answer in answers], pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
