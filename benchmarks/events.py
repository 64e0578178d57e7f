"""What the event service costs: throughput beside plain NATS, matching many subscriptions, policy evolution."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from time import perf_counter, thread_time, time
from uuid import uuid4

import nats
import uvloop

from authfabric.scenarios import Domain, ServerMode, stage
from authz import Identity
from authz.predicate import And, Equal, Not, Order, Path, Predicate
from authz.predicate.matching import Matcher
from benchmarks.carriage import fanout, idle
from benchmarks.harness import at_least, at_most, best_of_each, main, progress
from benchmarks.measures.reauthorization import reauthorization, reauthorize
from benchmarks.measures.routed import routed
from pubsub_core.trust import Credential, issue
from pubsub_core.types import AttributeType, EventType, SignedType

EVENTS = 20_000
ROUNDS = 3
PUSHES = 20
WARM_UP = 100
BROKERS = ("north", "south")
PROMISES = {
    "publish_ratio": at_least(0.6),
    "match_growth": at_most(3),
    "fanout_cost": at_most(1.1),
    "idle_cpu_40": at_most(0.01),
    "idle_growth": at_most(1.5),
    "routed_share": at_most(1.3),
    "reauthorize_ms_10000": at_most(50),
}
OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}, description: '%d'}"
WHY_OPEN = "carriage is measured, not policies"
ATTRIBUTES = [
    ("numberplate", AttributeType.STRING),
    ("location", AttributeType.STRING),
    ("speed", AttributeType.FLOAT),
    ("lane", AttributeType.INTEGER),
]


def run() -> dict[str, float]:
    """Measure throughput through two brokers, matching, policy evolution, and what carriage costs a broker."""
    return {name: value for each in PARTS for name, value in measure(each).items()}


def measure(part: str) -> dict[str, float]:
    progress(part)
    return PARTS[part]()


def matching() -> dict[str, float]:
    counts = (10, 1_000, 100_000)
    rounds = {str(count): _matching(count) for count in counts}
    seconds = best_of_each(rounds, clock=thread_time)
    us = {f"match_us_{count}": 1e6 * seconds[str(count)] / 1000 for count in counts}
    return {**us, "match_growth": us["match_us_100000"] / us["match_us_1000"]}


def _matching(count: int) -> Callable[[], object]:
    """A thousand events matched with `count` subscriptions, about one of which each event is for."""
    draw, matcher = random.Random(count), Matcher[int]()
    for number in range(count):
        matcher.add(number, _filter(number, count, draw))
    events = [
        {"p": f"P{draw.randrange(count)}", "s": draw.uniform(0, 100), "l": f"L{draw.randrange(count)}"}
        for _ in range(1000)
    ]
    return lambda: [matcher.match(event) for event in events]


def _filter(number: int, count: int, draw: random.Random) -> Predicate:
    plate, speed, place = (Path("event", (name,)) for name in "psl")
    low = draw.uniform(0, 100)
    return (
        And((Equal(plate, f"P{number}"), Order(speed, ">", 50.0))),
        Equal(plate, f"P{number}"),
        And((Order(speed, ">=", low), Order(speed, "<", low + 100 / count))),
        And((Equal(place, f"L{number // 4}"), Not(Equal(plate, "x")))),
    )[number % 4]


@contextlib.asynccontextmanager
async def staged() -> AsyncIterator[tuple[Domain, EventType]]:
    """A domain with two brokers, and a type that everybody may publish and read."""
    async with stage(["bench"], ServerMode.OPEN) as (domain,):
        kind = EventType.new("bench.Sighting", domain.key.public, ATTRIBUTES, uuid4)
        await domain.publish_types(SignedType.sign(kind, domain.key))
        await domain.release(OPEN % 0, force=WHY_OPEN)
        await domain.start_pdp()
        for name in BROKERS:
            await domain.start_broker([domain], domain.key, name=name)
        yield domain, kind


async def publishing() -> dict[str, float]:
    """Events a second through two brokers, beside plain messages."""
    ours, plain = [], []
    async with staged() as (domain, kind):
        for _ in range(ROUNDS):
            plain.append(await _plain(domain.url, kind))
            ours.append(await _through_brokers(domain, kind))
            progress(f"{ours[-1]:,.0f} events/s through brokers, {plain[-1]:,.0f} messages/s without")
    return {
        "events_per_second": max(ours),
        "plain_per_second": max(plain),
        "publish_ratio": max(ours) / max(plain),
    }


async def evolution() -> dict[str, float]:
    """How long a release takes to be in force, and what one stops where there are many subscriptions."""
    async with staged() as (domain, kind):
        taken = sorted(
            [await reauthorize(domain, OPEN % number, len(BROKERS)) for number in range(1, PUSHES + 1)]
        )
        progress("reauthorization")
        held = await reauthorization(domain, kind, writer(domain))
    return {"policy_evolution_ms": 1000 * taken[int(0.99 * len(taken))], **held}


def values(number: int) -> dict[str, object]:
    return {
        "numberplate": f"AE{number % 977:03} XYZ",
        "location": "Victoria",
        "speed": number % 80 + 0.5,
        "lane": 2,
    }


async def _through_brokers(domain: Domain, kind: EventType) -> float:
    """Events per second from a publisher at one broker to a subscriber at another."""
    async with domain.client("reader", {}, broker=BROKERS[1]) as reader:
        subscriber = await reader.subscriber(kind.name, "speed > 0")
        child = await _child("brokers", domain.url, *writer(domain), kind.name)
        for _ in range(WARM_UP):
            await anext(subscriber)
        start = perf_counter()
        for _ in range(EVENTS):
            await anext(subscriber)
        seconds = perf_counter() - start
        await child.wait()
    return EVENTS / seconds


def writer(domain: Domain) -> tuple[str, str]:
    """A publisher's key, as its seed, and its credential."""
    seed = random.randbytes(32)
    identity = Identity.from_seed(seed)
    credential = issue(Credential(str(identity.public), "writer", domain.name, time() + 1000), domain.key)
    return seed.hex(), credential.hex()


async def _plain(url: str, kind: EventType) -> float:
    """Messages per second with the same payloads, by the library alone."""
    client = await nats.connect(url)
    done, seen, start = asyncio.Event(), 0, 0.0

    async def take(message: object) -> None:
        nonlocal seen, start
        seen += 1
        if seen == WARM_UP:
            start = perf_counter()
        if seen == EVENTS + WARM_UP:
            done.set()

    await client.subscribe("bench.plain", cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    ids = ",".join(each.id for each in kind.attributes)
    child = await _child("plain", url, ids)
    await done.wait()
    seconds = perf_counter() - start
    await child.wait()
    await client.close()
    return EVENTS / seconds


async def _child(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.processes.event_publisher", *words
    )


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "matching": matching,
    "publishing": lambda: uvloop.run(publishing()),
    "evolution": lambda: uvloop.run(evolution()),
    "routed": lambda: uvloop.run(routed()),
    "fanout": lambda: uvloop.run(fanout()),
    "idle": lambda: uvloop.run(idle()),
}

if __name__ == "__main__":
    main(run, parts={name: partial(measure, name) for name in PARTS}, one_by_one=True)
