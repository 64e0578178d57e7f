"""The availability experiment run live: real NATS, real PDP processes that fail on schedule, a real PEP.

The samples are those of the simulation, so a live run can be compared with its simulated twin request by request.
Every cell is a domain of its own in one fabric. Its point-to-point baseline is a TCP connection from the PEP to the
first PDP, with no event service in between: both ways get the same requests at the same time, one after the other at
the plan's pace, and meet the same failures.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from authz import Decision, Request
from pep import UNVERIFIED, Enforcer
from spark_eval.errors import EvaluationError
from spark_eval.experiment import (
    Availability,
    Cell,
    Flags,
    Population,
    Sample,
    cell_columns,
    draw_grants,
    draw_task,
    tasks,
)
from spark_eval.measurement.fabric_service import (
    Running,
    make_request,
    object_name,
    role_policies,
    run_fabric,
)
from spark_eval.measurement.hosts import Host
from spark_eval.measurement.measurement import Measurement
from spark_eval.measurement.peps import DirectPep
from spark_eval.measurement.replica_service import NUMBER, RUN, ReplicaTask
from spark_eval.runtime import Advance
from spark_eval.schemas import LIVE, P2P, PUBSUB, TRACE

BATCH = 10
"""Length of a part of a run that counts as independent, as a multiple of a failure's."""
BATCHES = 10
"""How many such parts a run has at least, however short it is."""
MOST_OPEN = 1_000
"""Requests without an answer from which on no more are asked: then the machine cannot keep the pace."""
CROWD = 16
"""PDPs from which on a cell has a fabric of its own."""


class WrongAnswer(EvaluationError):
    """A PDP decided otherwise than its policies say: the experiment is worth nothing."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(f"a PDP answered wrongly: {decision}")
        self.decision = decision


class Answer(NamedTuple):
    """What became of one request."""

    at: float
    """When it was asked."""
    failed: bool
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A cell in the fabric of one run: its name there, and its sample."""

    name: str
    cell: Cell
    sample: Sample
    row: int
    """Which run of the sample it is."""
    run: int
    """And which of the experiment."""

    def question(self, number: int) -> tuple[int, int]:
        """The subject and the object of the request with this number."""
        return int(self.sample.subjects[self.row, number]), int(self.sample.objects[self.row, number])

    def batches(self, requests: int) -> int:
        """How many independent observations `requests` requests count as."""
        return max(BATCHES, int(requests / (BATCH * self.cell.mttr)))


def live_measurements(plan: Availability, seed: int, hosts: Sequence[Host] = ()) -> Iterator[Measurement]:
    """Every live run of the plan, its PDPs here, or on these hosts in turn; those with many PDPs by themselves."""
    grants = draw_grants(plan.population, seed)
    policies = role_policies(grants)

    async def run(together: Sequence[Place], advance: Advance) -> pa.Table:
        run = _Run(plan, grants, advance)
        async with run_fabric(replica_tasks(together, policies), hosts) as running:
            await run.ask_all(together, running)
        # Not before the fabric is gone: whoever computes for long without listening is taken for dead.
        return pa.concat_tables(run.tables())

    for number in range(plan.rounds):
        places = find_places(plan, seed, number)
        crowded = [place for place in places if place.cell.pdps > CROWD]
        if plain := [place for place in places if place not in crowded]:
            yield Measurement(f"live run {number + 1}", partial(run, plain))
        for place in crowded:
            yield Measurement(f"live run {number + 1} with {place.cell.pdps} PDPs", partial(run, [place]))


def find_places(plan: Availability, seed: int, run: int) -> list[Place]:
    """The cells of one live run, each with the sample that the simulation gives the run of this number."""
    cells = plan.live_cells(run)
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
                place.name: spans(~place.sample.up[place.row, number])
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
    for thing in place.sample.serves[place.row, number].nonzero()[0].tolist():
        yield f"object@{place.name}:{object_name(thing)}"


Asking: TypeAlias = Callable[[Request, float], Awaitable[Decision | None]]
"""Asks with a deadline; gives None if nobody answers."""


class _Run:
    """Asks the questions of all places of a run, one place after the other, at the plan's pace and both ways."""

    def __init__(self, plan: Availability, grants: Flags, advance: Advance) -> None:
        self._plan = plan
        self._population: Population = plan.population
        self._grants = grants
        self._advance = advance
        self._answers: dict[tuple[Place, str], list[asyncio.Task[Answer]]] = {}
        self._asked: dict[str, int] = {}

    async def ask_all(self, places: Sequence[Place], running: Running) -> None:
        async with contextlib.AsyncExitStack() as stack:
            own = await DirectPep.connect(running.direct[0])
            stack.callback(own.close)
            for place in places:
                connecting = Enforcer.connect(
                    running.url, domain=place.name, recycling=None, trust=UNVERIFIED, audit=False
                )
                pep = await stack.enter_async_context(connecting)
                await self._ask_paced(place, {P2P: own.check, PUBSUB: partial(_over_nats, pep, place)})
            for address in running.direct:
                pdp = await DirectPep.connect(address)
                for run, count in (await pdp.counts()).items():
                    self._asked[run] = self._asked.get(run, 0) + count
                pdp.close()

    def tables(self) -> Iterator[pa.Table]:
        """What became of the questions, when all are done."""
        for (place, variant), answers in self._answers.items():
            asked = self._asked.get(place.name) if variant == PUBSUB else None
            yield _rows(place, variant, [answer.result() for answer in answers], asked)

    async def _ask_paced(self, place: Place, ways: dict[str, Asking]) -> None:
        """Ask at the pace, whether earlier requests are answered or not; return when all are, or have failed."""
        self._answers |= {(place, variant): [] for variant in ways}
        waiting: set[asyncio.Task[Answer]] = set()
        start = perf_counter()
        for number in range(self._population.requests):
            await asyncio.sleep(max(0.0, start + number * self._plan.interval - perf_counter()))
            for variant, ask in ways.items():
                task = asyncio.create_task(self._ask(ask, place, number))
                self._answers[place, variant].append(task)
                waiting.add(task)
            if len(waiting) > MOST_OPEN:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            waiting = {task for task in waiting if not _over(task)}
        await asyncio.gather(*waiting)

    async def _ask(self, ask: Asking, place: Place, number: int) -> Answer:
        subject, thing = place.question(number)
        context: dict[str, object] = {RUN: place.name, NUMBER: number}
        request = make_request(self._population, subject, thing, context)
        start = perf_counter()
        # Only questions with equal deadlines travel together. These travel alone, and so are lost one by one.
        decision = await ask(request, self._population.deadline + number * 1e-9)
        seconds = perf_counter() - start
        if decision is not None and decision.allowed != self._grants[subject % self._population.roles, thing]:
            raise WrongAnswer(decision)
        self._advance(1)
        return Answer(start, decision is None, seconds)


def _over(task: asyncio.Task[Answer]) -> bool:
    """Whether a question is done; a wrong answer ends the experiment here."""
    if task.done():
        task.result()
    return task.done()


async def _over_nats(pep: Enforcer, place: Place, request: Request, seconds: float) -> Decision | None:
    decision = await pep.check(request, deadline=seconds, strategy=place.cell.strategy)
    return decision if decision.decided else None


def _rows(place: Place, variant: str, answers: Sequence[Answer], asked: int | None) -> pa.Table:
    count = len(answers)
    numbers = np.arange(count, dtype=np.int32)
    each = None if asked is None else asked / count
    columns = {
        "source": pa.repeat(LIVE, count),
        "figure": pa.repeat("", count),
        "variant": pa.repeat(variant, count),
        **cell_columns(place.cell, count),
        "run": pa.repeat(pa.scalar(place.run, pa.int32()), count),
        "batch": pa.array((numbers.astype(np.int64) * place.batches(count) // count).astype(np.int32)),
        "request": pa.array(numbers),
        "requests": pa.repeat(pa.scalar(1, pa.int32()), count),
        "failed": pa.array([answer.failed for answer in answers]).cast(pa.int32()),
        "recycled": pa.repeat(pa.scalar(0, pa.int32()), count),
        "asked": pa.repeat(pa.scalar(each, pa.float64()), count),
        "at": pa.array([answer.at - answers[0].at for answer in answers], pa.float64()),
        "seconds": pa.array([None if answer.failed else answer.seconds for answer in answers], pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
