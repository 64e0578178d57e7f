"""The response-time experiments: one question at a time over real processes, when nothing fails.

After Wei, "Authorization Using the Publish-Subscribe Model", section 4.2: against the PDP's subscriptions, the PEP
unsubscribing or not, recycling or not, and the number of PDPs; and, after its section 6, against the way between PEP
and PDP. The variants of a figure take turns, request by request: a slow moment of the machine strikes them all alike.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import pyarrow as pa

from authz import Decision, Request
from bus.nats import Connection
from pep import UNVERIFIED, Enforcer, Recycling, Strategy
from spark_eval.experiment import (
    Cell,
    Experiment,
    Hosts,
    Population,
    ResponseTime,
    cell_columns,
    draw_grants,
    generator,
    variants,
)
from spark_eval.measurement.fabric_service import (
    Running,
    Shipped,
    ShippedFabric,
    make_request,
    object_name,
    role_policies,
    run_content_fabric,
    run_fabric,
)
from spark_eval.measurement.hosts import Host, count_other_hosts, other_hosts
from spark_eval.measurement.measurement import Measurement
from spark_eval.measurement.peps import (
    DEADLINE,
    Ask,
    ContentPep,
    DirectPep,
    DirectReplyPep,
    SubscribingPep,
    ask_barely,
)
from spark_eval.measurement.replica_service import Kind, ReplicaTask
from spark_eval.runtime import Advance
from spark_eval.schemas import LIVE, TRACE

WARM_UP = 50
RECYCLINGS: Mapping[str, Recycling | None] = {
    variants.NOTHING: None,
    variants.PRECISE: Recycling(saam_rbac=0, saam_blp=0, certificates=0),
    variants.SAAM: Recycling(saam_blp=0, certificates=0),
    variants.CERTIFICATES: Recycling(saam_rbac=0, saam_blp=0),
}


async def _nothing() -> None:
    """There is nothing to settle."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask, and what there is to do after each answer, which is no part of the response time."""

    ask: Ask
    settle: Callable[[], Awaitable[None]] = _nothing


Variants: TypeAlias = Mapping[str, Variant]


def count_requests(plan: ResponseTime, hosts: Hosts | None = None) -> int:
    """How many requests the experiments ask, all variants together."""
    others = count_other_hosts(hosts)
    compared = {
        variants.SUBSCRIPTIONS: 2 * len(plan.subscriptions),
        variants.UNSUBSCRIBING: len((variants.ONE_INBOX, *2 * (variants.UNSUBSCRIBES, variants.KEEPS))),
        variants.RECYCLING: len(RECYCLINGS),
        variants.PDPS: len({*plan.pdps}) + len((variants.HEDGED,)),
        variants.TRANSPORT: 5 + 2 * (others > 0) + (others > 1),
    }
    return sum(compared[figure] * population.requests for figure, population in populations(plan).items())


def populations(plan: ResponseTime) -> dict[str, Population]:
    """Who asks about what, for each figure."""
    plain = Population(requests=plan.requests, objects=min(plan.subscriptions))
    return {figure: plan.recycling if figure == variants.RECYCLING else plain for figure in FIGURES}


def response_measurements(plan: Experiment, shipped: Shipped) -> Iterator[Measurement]:
    """One for each figure."""

    async def run(figure: str, advance: Advance) -> pa.Table:
        population = populations(plan.response_time)[figure]
        requests = draw_requests(population, plan.seed, figure)
        async with Fabrics(population, plan.seed, shipped, plan.hosts) as fabrics:
            compared = await FIGURES[figure](plan.response_time, fabrics)
            measured = await _take_turns(figure, compared, requests, advance)
        # Not before the fabrics are gone: whoever computes for long without listening is taken for dead.
        return pa.concat_tables(map(_rows, measured))

    for figure in FIGURES:
        yield Measurement(f"response times, {figure}", partial(run, figure))


def draw_requests(population: Population, seed: int, name: str) -> list[Request]:
    """Who asks about what, in order."""
    rng = generator(seed, name, 0)
    subjects = rng.integers(population.subjects, size=population.requests).tolist()
    things = rng.integers(population.objects, size=population.requests).tolist()
    return [make_request(population, *pair, {}) for pair in zip(subjects, things, strict=True)]


async def by_subscriptions(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """A PDP that subscribes to few objects or to many; the same few are asked about, on the subject of each.

    All variants ask as the paper's PEP does, so that they go the same way; on NATS, and through filters.
    """
    found: dict[str, Variant] = {}
    for count in plan.subscriptions:
        url = (await fabrics.start(count)).url
        found[variants.objects(count)] = await fabrics.subscribing_pep(url, unsubscribes=True)
    for count in plan.subscriptions:
        name = variants.objects(count, variants.CONTENT)
        found[name] = await fabrics.content_pep(count, unsubscribes=True)
    return found


async def by_unsubscribing(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """A PEP that subscribes to each response, and unsubscribes or not; beside it, ours with its one inbox."""
    found = {variants.ONE_INBOX: await fabrics.pep((await fabrics.start()).url)}
    for name, unsubscribes in ((variants.UNSUBSCRIBES, True), (variants.KEEPS, False)):
        found[name] = await fabrics.subscribing_pep((await fabrics.start()).url, unsubscribes)
    for name, unsubscribes in ((variants.UNSUBSCRIBES, True), (variants.KEEPS, False)):
        count = min(plan.subscriptions)
        found[f"{name}, {variants.CONTENT}"] = await fabrics.content_pep(count, unsubscribes)
    return found


async def by_recycling(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """The fabric as it is shipped: PEPs that trust a key, a PDP that follows releases, and leases."""
    fabric = await fabrics.start_shipped()
    return {name: await fabrics.trusting_pep(fabric, use) for name, use in RECYCLINGS.items()}


async def by_pdps(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """One PDP or several, all asked at once; and the most of them asked by hedging, one and then the others."""
    urls = {pdps: (await fabrics.start(pdps=pdps)).url for pdps in sorted(plan.pdps)}
    found = {variants.pdps(pdps): await fabrics.pep(url) for pdps, url in urls.items()}
    most = max(urls)
    return {**found, variants.pdps(most, variants.HEDGED): await fabrics.pep(urls[most], Strategy.HEDGE)}


async def by_transport(plan: ResponseTime, fabrics: Fabrics) -> Variants:
    """Point to point without an event service, over NATS, answered past NATS, secured, and on other hosts."""
    near, bypassed = await fabrics.start(), await fabrics.start(kind=Kind.DIRECT_REPLY)
    found = {
        variants.DIRECT: await fabrics.direct_pep(near),
        variants.OVER_NATS: await fabrics.pep(near.url),
        variants.BARE: await fabrics.bare_pep(bypassed.url),
        variants.DIRECT_REPLY: await fabrics.direct_reply_pep(bypassed.url),
        variants.SECURED: await fabrics.trusting_pep(await fabrics.start_shipped(secure=True), None),
    }
    hosts = fabrics.enter_context(other_hosts(fabrics.named))
    if hosts:
        far = await fabrics.start(hosts=hosts[:1])
        found[variants.DIRECT_FAR] = await fabrics.direct_pep(far)
        found[variants.FAR] = await fabrics.pep(far.url)
    if len(hosts) > 1:
        spread = await fabrics.start(pdps=len(hosts), hosts=hosts)
        found[variants.SPREAD] = await fabrics.pep(spread.url)
    return found


FIGURES: Mapping[str, Callable[[ResponseTime, Fabrics], Awaitable[Variants]]] = {
    variants.SUBSCRIPTIONS: by_subscriptions,
    variants.UNSUBSCRIBING: by_unsubscribing,
    variants.RECYCLING: by_recycling,
    variants.PDPS: by_pdps,
    variants.TRANSPORT: by_transport,
}


class Fabrics(AsyncExitStack):
    """Fabrics for one population, each a server with PDPs of its own, and PEPs on them that have warmed up."""

    def __init__(
        self, population: Population, seed: int, shipped: Shipped, named: Hosts | None = None
    ) -> None:
        super().__init__()
        self.named = named
        """The other hosts of the plan, if it names any."""
        self._objects = population.objects
        self._policies = role_policies(draw_grants(population, seed))
        self._shipped = shipped

    def _task(self, objects: int, kind: Kind = Kind.REPLICA) -> ReplicaTask:
        scopes = [f"object:{object_name(number)}" for number in range(objects or self._objects)]
        return ReplicaTask("", scopes, self._policies, kind=kind)

    async def start(
        self, objects: int = 0, pdps: int = 1, kind: Kind = Kind.REPLICA, hosts: Sequence[Host] = ()
    ) -> Running:
        """Start `pdps` PDPs that subscribe to `objects` objects each, or to those of the population."""
        return await self.enter_async_context(run_fabric([self._task(objects, kind)] * pdps, hosts))

    async def start_shipped(self, secure: bool = False) -> ShippedFabric:
        """Start a fabric as it is shipped, with one PDP."""
        folder = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="authfabric-")))
        (folder / "roles.oasis").write_text(self._policies)
        return await self.enter_async_context(self._shipped(folder, 1, secure=secure))

    async def pep(self, url: str, strategy: Strategy = Strategy.FLOOD) -> Variant:
        """Asks as services do, and believes whoever answers."""
        connecting = Enforcer.connect(
            url, strategy=strategy, deadline=DEADLINE, recycling=None, trust=UNVERIFIED, audit=False
        )
        return await _warmed(_asking(await self.enter_async_context(connecting)))

    async def trusting_pep(self, fabric: ShippedFabric, recycling: Recycling | None) -> Variant:
        """Asks as services do, and believes the PDPs that the trusted key empowered."""
        connecting = Enforcer.connect(
            fabric.url,
            deadline=DEADLINE,
            recycling=recycling,
            trust=[fabric.trust],
            credentials=fabric.credentials,
        )
        pep = await self.enter_async_context(connecting)
        if pep.secondary is not None:
            await pep.secondary.feed.ready.wait()
        return await _warmed(_asking(pep))

    async def subscribing_pep(self, url: str, unsubscribes: bool) -> Variant:
        """Asks as the paper's PEP does."""
        pep = SubscribingPep(await self.enter_async_context(Connection(url)))
        return await _warmed(Variant(pep.check, pep.unsubscribe if unsubscribes else _nothing))

    async def content_pep(self, objects: int, unsubscribes: bool) -> Variant:
        """Asks as the paper's PEP does, through an event service with filters."""
        address = await self.enter_async_context(run_content_fabric(self._task(objects)))
        pep = await ContentPep.connect(address)
        self.callback(pep.close)
        return await _warmed(Variant(pep.check, pep.unsubscribe if unsubscribes else _nothing))

    async def direct_pep(self, running: Running) -> Variant:
        """Asks its PDP over TCP."""
        pep = await DirectPep.connect(running.direct[0])
        self.callback(pep.close)
        return await _warmed(Variant(pep.check))

    async def bare_pep(self, url: str) -> Variant:
        """Asks and waits, and does nothing else."""
        return await _warmed(Variant(partial(ask_barely, await self.enter_async_context(Connection(url)))))

    async def direct_reply_pep(self, url: str) -> Variant:
        """Asks over NATS, and is answered over TCP."""
        pep = await DirectReplyPep.listen(await self.enter_async_context(Connection(url)))
        self.callback(pep.close)
        return await _warmed(Variant(pep.check))


def _asking(pep: Enforcer) -> Variant:
    async def ask(request: Request) -> Decision | None:
        decision = await pep.check(request)
        return decision if decision.decided else None

    return Variant(ask)


async def _warmed(variant: Variant) -> Variant:
    for _ in range(WARM_UP):
        await variant.ask(Request.of("nobody", object_name(0), "read"))
        await variant.settle()
    return variant


@dataclass(frozen=True, slots=True)
class Measured:
    """What was observed of one variant, by request: the seconds until the answer, or None if there was none."""

    figure: str
    variant: str
    seconds: list[float | None] = field(default_factory=list)
    recycled: list[int] = field(default_factory=list)


async def _take_turns(
    figure: str, compared: Variants, requests: Sequence[Request], advance: Advance
) -> list[Measured]:
    measured = [Measured(figure, name) for name in compared]
    turns = deque(zip(measured, compared.values(), strict=True))
    for request in requests:
        turns.rotate(1)  # who follows whom costs something, too: everyone comes first as often as last
        for log, variant in turns:
            start = perf_counter()
            decision = await variant.ask(request)
            log.seconds.append(None if decision is None else perf_counter() - start)
            log.recycled.append(int(decision is not None and decision.inferred is not None))
            await variant.settle()
        advance(len(compared))
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
        "failed": pa.array([each is None for each in measured.seconds]).cast(pa.int32()),
        "recycled": pa.array(measured.recycled, pa.int32()),
        "asked": pa.nulls(count, pa.float64()),
        "at": pa.nulls(count, pa.float64()),
        "seconds": pa.array(measured.seconds, pa.float64()),
    }
    return pa.table([columns[name] for name in TRACE.names], schema=TRACE)
