"""The availability experiment run live: real NATS, real PDP processes that fail on schedule, a real PEP.

The samples are those of the simulation, so a live run can be compared with its simulated twin request by request.
Every cell is a domain of its own in one fabric, and its point-to-point baseline another, which only the first PDP
serves: both get the same requests at the same time, and meet the same failures.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from authz import Decision
from pep import UNVERIFIED, Enforcer
from spark_eval.errors import EvaluationError
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.fabric_service import make_request, object_name, role_policies, run_fabric
from spark_eval.experiment.plan import Availability
from spark_eval.experiment.replica_service import NUMBER, RUN, ReplicaTask
from spark_eval.experiment.sampling import Flags, Sample, draw_grants
from spark_eval.experiment.simulation import cell_columns, draw_task, tasks
from spark_eval.runtime import Advance
from spark_eval.schemas import LIVE, P2P, PUBSUB, TRACE

BATCH = 10
"""Length of a part of a run that counts as independent, as a multiple of a failure's."""
BATCHES = 10
"""How many such parts a run has at least, however short it is."""
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

    @property
    def domains(self) -> dict[str, str]:
        """By variant: where to ask."""
        return {P2P: f"{self.name}-own", PUBSUB: self.name}

    def question(self, number: int) -> tuple[int, int]:
        """The subject and the object of the request with this number."""
        return int(self.sample.subjects[self.row, number]), int(self.sample.objects[self.row, number])

    def batches(self, requests: int) -> int:
        """How many independent observations `requests` requests count as."""
        return max(BATCHES, int(requests / (BATCH * self.cell.mttr)))


async def run_live(plan: Availability, seed: int, advance: Advance) -> pa.Table:
    """The trace of every live run of the plan; `advance` is told how many requests are done."""
    runs: list[_Run] = []
    grants = draw_grants(plan.population, seed)
    for number in range(plan.live_runs):
        places = find_places(plan, seed, number)
        async with run_fabric(replica_tasks(places, role_policies(grants))) as url:
            runs.append(_Run(plan.population, grants, advance))
            await runs[-1].ask_all(places, url)
    # Not before all fabrics are gone: whoever computes for long without listening is taken for dead.
    return pa.concat_tables([TRACE.empty_table(), *(table for run in runs for table in run.tables())])


def find_places(plan: Availability, seed: int, run: int) -> list[Place]:
    """The cells of one live run, each with the sample that the simulation gives the run of this number."""
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
    if number == 0:
        yield f"domain:{place.domains[P2P]}"
    for thing in place.sample.serves[place.row, number].nonzero()[0].tolist():
        yield f"object@{place.domains[PUBSUB]}:{object_name(thing)}"


class _Run:
    """Asks the questions of all places of a run in order, a bounded number at a time; each place both ways."""

    def __init__(self, population: Population, grants: Flags, advance: Advance) -> None:
        self._population = population
        self._grants = grants
        self._advance = advance
        self._answers: dict[tuple[Place, str], list[asyncio.Future[Answer]]] = {}

    async def ask_all(self, places: Sequence[Place], url: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            peps = {
                (place, variant): await stack.enter_async_context(
                    Enforcer.connect(url, domain=domain, recycling=None, trust=UNVERIFIED)
                )
                for place in places
                for variant, domain in place.domains.items()
            }
            self._answers = {key: [] for key in peps}
            numbers = range(self._population.requests)
            questions = (
                (peps[place, variant], place, variant, number)
                for place in places
                for number in numbers
                for variant in place.domains
            )
            await asyncio.gather(*(self._ask_in_turn(questions) for _ in range(IN_FLIGHT)))
            await asyncio.gather(*(answer for answers in self._answers.values() for answer in answers))

    def tables(self) -> Iterator[pa.Table]:
        """What became of the questions, when all are done."""
        for (place, variant), answers in self._answers.items():
            yield _rows(place, variant, [answer.result() for answer in answers])

    async def _ask_in_turn(self, questions: Iterator[tuple[Enforcer, Place, str, int]]) -> None:
        for pep, place, variant, number in questions:
            answer = asyncio.ensure_future(self._ask(pep, place, number))
            self._answers[place, variant].append(answer)
            await asyncio.wait([answer], timeout=PATIENCE)
            if answer.done():
                answer.result()  # a wrong answer ends the experiment here

    async def _ask(self, pep: Enforcer, place: Place, number: int) -> Answer:
        subject, thing = place.question(number)
        context: dict[str, object] = {RUN: place.name, NUMBER: number}
        request = make_request(self._population, subject, thing, context)
        # Only questions with equal deadlines travel together. These travel alone, and so are lost one by one.
        deadline = self._population.deadline + number * 1e-9
        start = perf_counter()
        decision = await pep.check(request, deadline=deadline, strategy=place.cell.strategy)
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
        "batch": pa.array((numbers.astype(np.int64) * place.batches(count) // count).astype(np.int32)),
        "request": pa.array(numbers),
        "requests": pa.repeat(pa.scalar(1, pa.int32()), count),
        "failed": pa.array([answer.failed for answer in answers]).cast(pa.int32()),
        "recycled": pa.repeat(pa.scalar(0, pa.int32()), count),
        "asked": pa.nulls(count, pa.float64()),
        "seconds": pa.array([None if answer.failed else answer.seconds for answer in answers], pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
