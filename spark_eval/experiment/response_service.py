"""The response-time experiments: one question at a time over real NATS and PDP processes, when nothing fails.

After Wei, "Authorization Using the Publish-Subscribe Model", section 4.2: against the PDP's subscriptions, the PEP
unsubscribing or not, recycling or not, and the number of PDPs. The variants of a figure take turns, request by
request: a slow moment of the machine strikes them all alike.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeAlias

import pyarrow as pa

from authz import Decision, Request
from bus.nats import Connection, Subscription
from bus.wire import DEFAULT_DOMAIN, Mode, Questions, own_scope, pack, question, response, unpack_answers
from pep import UNVERIFIED, Enforcer, Strategy
from sdp_cache import Recycler, Recycling
from spark_eval.errors import EvaluationError
from spark_eval.experiment.cell import Cell, Population
from spark_eval.experiment.fabric_service import make_request, object_name, role_policies, run_fabric
from spark_eval.experiment.linear_matching import EventService, Filter, equal
from spark_eval.experiment.plan import ResponseTime
from spark_eval.experiment.replica_service import ReplicaTask
from spark_eval.experiment.sampling import draw_grants, generator
from spark_eval.experiment.simulation import cell_columns
from spark_eval.runtime import Advance
from spark_eval.schemas import LIVE, TRACE

DEADLINE = 10.0
"""Seconds: far more than any answer takes, so that nothing is given up."""
WARM_UP = 50

SUBSCRIPTIONS, UNSUBSCRIBING, RECYCLING, PDPS = "subscriptions", "unsubscribing", "recycling", "pdps"
ONE_INBOX, UNSUBSCRIBES, KEEPS = "one inbox for all", "unsubscribes from each", "never unsubscribes"
FILTERS = "filters"
"""Said of what is asked through an event service that compares filters, as the paper's did."""
HEDGED = "hedged"
NOTHING, PRECISE, SAAM = "no recycling", "precise", "SAAM-RBAC"
RECYCLINGS = {
    NOTHING: None,
    PRECISE: Recycling(saam_rbac=0, saam_blp=0, certificates=0),
    SAAM: Recycling(saam_blp=0, certificates=0),
}

Ask: TypeAlias = Callable[[Request], Awaitable[Decision]]


async def _nothing() -> None:
    """There is nothing to settle."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask, and what there is to do after each answer, which is no part of the response time."""

    ask: Ask
    settle: Callable[[], Awaitable[None]] = _nothing


Variants: TypeAlias = Mapping[str, Variant]


class Unanswered(EvaluationError):
    """A question got no answer although nothing was made to fail."""

    def __init__(self, request: Request, problem: str) -> None:
        super().__init__(f"`{request}` was not answered, though nothing was made to fail: {problem}")
        self.request = request
        self.problem = problem


def count_requests(plan: ResponseTime) -> int:
    """How many requests the experiments ask, all variants together."""
    variants = {
        SUBSCRIPTIONS: 2 * len(plan.subscriptions),
        UNSUBSCRIBING: len((ONE_INBOX, *2 * (UNSUBSCRIBES, KEEPS))),
        RECYCLING: len(RECYCLINGS),
        PDPS: len({*plan.pdps}) + len((HEDGED,)),
    }
    return sum(variants[figure] * population.requests for figure, population in populations(plan).items())


def populations(plan: ResponseTime) -> dict[str, Population]:
    """Who asks about what, for each figure."""
    plain = Population(requests=plan.requests, objects=min(plan.subscriptions))
    return {SUBSCRIPTIONS: plain, UNSUBSCRIBING: plain, RECYCLING: plan.recycling, PDPS: plain}


async def run_response_times(plan: ResponseTime, seed: int, advance: Advance) -> pa.Table:
    """The trace of all four experiments; `advance` is told how many requests are done."""
    measured: list[Measured] = []
    for figure, prepare in FIGURES.items():
        population = populations(plan)[figure]
        requests = draw_requests(population, seed, figure)
        async with Fabrics(population, seed) as fabrics:
            variants = await prepare(plan, fabrics)
            measured += await _take_turns(figure, variants, requests, advance)
    # Not before all fabrics are gone: whoever computes for long without listening is taken for dead.
    return pa.concat_tables(map(_rows, measured))


def draw_requests(population: Population, seed: int, name: str) -> list[Request]:
    """Who asks about what, in order."""
    rng = generator(seed, name, 0)
    subjects = rng.integers(population.subjects, size=population.requests).tolist()
    things = rng.integers(population.objects, size=population.requests).tolist()
    return [make_request(population, *pair, {}) for pair in zip(subjects, things, strict=True)]


async def by_subscriptions(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """A PDP that subscribes to few objects or to many; the same few are asked about. On NATS, and with filters."""
    peps = {objects: await fabrics.pep(await fabrics.start(objects)) for objects in plan.subscriptions}
    plain = {f"{objects:,} objects": pep for objects, pep in peps.items()}
    return plain | {
        f"{objects:,} objects, {FILTERS}": _filtering(pep.ask, objects, unsubscribes=True)
        for objects, pep in peps.items()
    }


async def by_unsubscribing(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """A PEP that subscribes to each response, and unsubscribes or not; beside it, ours with its one inbox."""
    pep, objects = await fabrics.pep(await fabrics.start()), min(plan.subscriptions)
    return {
        ONE_INBOX: pep,
        UNSUBSCRIBES: await fabrics.subscribing_pep(await fabrics.start(), unsubscribes=True),
        KEEPS: await fabrics.subscribing_pep(await fabrics.start(), unsubscribes=False),
        f"{UNSUBSCRIBES}, {FILTERS}": _filtering(pep.ask, objects, unsubscribes=True),
        f"{KEEPS}, {FILTERS}": _filtering(pep.ask, objects, unsubscribes=False),
    }


async def by_recycling(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """A PEP with a secondary decision point beside it that recycles nothing, the same questions, or by roles."""
    pep = await fabrics.pep(await fabrics.start())
    return {
        name: pep if use is None else Variant(_recycling(pep.ask, use)) for name, use in RECYCLINGS.items()
    }


async def by_pdps(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """One PDP or several, all asked at once; and the most of them asked by hedging, one and then the others."""
    urls = {pdps: await fabrics.start(pdps=pdps) for pdps in sorted(plan.pdps)}
    variants = {_pdps(pdps): await fabrics.pep(url) for pdps, url in urls.items()}
    most = max(urls)
    return {**variants, f"{_pdps(most)}, {HEDGED}": await fabrics.pep(urls[most], Strategy.HEDGE)}


FIGURES: Mapping[str, Callable[[ResponseTime, Fabrics], Awaitable[Variants]]] = {
    SUBSCRIPTIONS: by_subscriptions,
    UNSUBSCRIBING: by_unsubscribing,
    RECYCLING: by_recycling,
    PDPS: by_pdps,
}


def _pdps(count: int) -> str:
    return f"{count} PDPs" if count > 1 else "1 PDP"


class Fabrics(AsyncExitStack):
    """Fabrics for one population, each a server with PDPs of its own, and PEPs on them that have warmed up."""

    def __init__(self, population: Population, seed: int) -> None:
        super().__init__()
        self._objects = population.objects
        self._policies = role_policies(draw_grants(population, seed))

    async def start(self, objects: int = 0, pdps: int = 1) -> str:
        """Start `pdps` PDPs that subscribe to `objects` objects each, or to those of the population; gives the URL."""
        scopes = [f"object:{object_name(number)}" for number in range(objects or self._objects)]
        return await self.enter_async_context(run_fabric([ReplicaTask("", scopes, self._policies)] * pdps))

    async def pep(self, url: str, strategy: Strategy = Strategy.FLOOD) -> Variant:
        """Asks as services do."""
        connecting = Enforcer.connect(
            url, strategy=strategy, deadline=DEADLINE, recycling=None, trust=UNVERIFIED
        )
        pep = await self.enter_async_context(connecting)
        return await _warmed(Variant(pep.check))

    async def subscribing_pep(self, url: str, unsubscribes: bool) -> Variant:
        """Asks as the paper's PEP does."""
        pep = SubscribingPep(await self.enter_async_context(Connection(url)))
        return await _warmed(Variant(pep.check, pep.unsubscribe if unsubscribes else _nothing))


async def _warmed(variant: Variant) -> Variant:
    for _ in range(WARM_UP):
        await variant.ask(Request.of("nobody", object_name(0), "read"))
        await variant.settle()
    return variant


class SubscribingPep:
    """Asks as the paper's PEP does: it subscribes to the response, then publishes the request."""

    def __init__(self, bus: Connection) -> None:
        self._bus = bus
        self._name = secrets.token_hex(8)
        self._subscriptions: list[Subscription] = []

    async def check(self, request: Request) -> Decision:
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

        def take(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            (decision,) = unpack_answers(payload).in_order()
            if decision is not None and not answer.done():
                answer.set_result(decision)

        reply = response(self._name, len(self._subscriptions))
        self._subscriptions.append(await self._bus.listen(reply, take))
        asked = pack(Questions([request], DEADLINE))
        # On a busy machine the server may drop a connection, and what was under way with it: ask again then.
        for _ in range(int(DEADLINE)):
            await self._bus.wait_ready(DEADLINE)
            self._bus.send(question(Mode.ALL, own_scope(DEFAULT_DOMAIN, request)), asked, reply)
            await asyncio.wait([answer], timeout=1.0)
            if answer.done():
                return answer.result()
        raise Unanswered(request, f"silence for {DEADLINE:g} s")

    async def unsubscribe(self) -> None:
        """Drop the interest in the last response."""
        await self._bus.cancel(self._subscriptions[-1:])


def _filtering(ask: Ask, objects: int, unsubscribes: bool) -> Variant:
    """Ask through an event service with filters: those of a PDP for `objects` objects, and of the PEP for responses.

    The PEP subscribes to the response, and what it asks and what comes back is compared with every filter.
    """
    service = EventService()
    for number in range(objects):
        service.subscribe(equal(object=object_name(number)))
    asked: list[Filter] = []

    async def check(request: Request) -> Decision:
        names = {"subject": request.subject.id, "object": request.object.id, "action": request.action.id}
        asked.append(equal(**names))
        service.subscribe(asked[-1])
        service.match({"object": request.object.id})
        decision = await ask(request)
        service.match({**names, "effect": decision.effect})
        return decision

    async def unsubscribe() -> None:
        service.unsubscribe(asked.pop())

    return Variant(check, unsubscribe if unsubscribes else _nothing)


def _recycling(ask: Ask, use: Recycling) -> Ask:
    """Ask the secondary decision point first, and let it learn from what the fabric answers."""
    point = Recycler(use)

    async def check(request: Request) -> Decision:
        recycled = point.infer(request, time.time())
        if recycled is not None:
            return recycled
        epoch = point.epoch
        decision = await ask(request)
        point.learn(request, decision, epoch)
        return decision

    return check


@dataclass(frozen=True, slots=True)
class Measured:
    """What was observed of one variant, by request."""

    figure: str
    variant: str
    seconds: list[float] = field(default_factory=list)
    recycled: list[int] = field(default_factory=list)


async def _take_turns(
    figure: str, variants: Variants, requests: Sequence[Request], advance: Advance
) -> list[Measured]:
    measured = [Measured(figure, name) for name in variants]
    for request in requests:
        for log, variant in zip(measured, variants.values(), strict=True):
            start = perf_counter()
            decision = await variant.ask(request)
            log.seconds.append(perf_counter() - start)
            log.recycled.append(int(decision.inferred is not None))
            await variant.settle()
            if not decision.decided:
                raise Unanswered(request, str(decision))
        advance(len(variants))
    return measured


def _rows(measured: Measured) -> pa.Table:
    count = len(measured.seconds)
    numbers = pa.array(range(count), pa.int32())
    zeros = pa.repeat(pa.scalar(0, pa.int32()), count)
    columns = {
        "source": pa.repeat(LIVE, count),
        "figure": pa.repeat(measured.figure, count),
        "variant": pa.repeat(measured.variant, count),
        **cell_columns(Cell(1, 1.0), count),
        "run": zeros,
        "batch": numbers,
        "request": numbers,
        "requests": pa.repeat(pa.scalar(1, pa.int32()), count),
        "failed": zeros,
        "recycled": pa.array(measured.recycled, pa.int32()),
        "asked": pa.nulls(count, pa.float64()),
        "seconds": pa.array(measured.seconds, pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
