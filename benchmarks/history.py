"""What interaction control costs: rules about each event, keeping what is published, and having it replayed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time, time
from uuid import uuid4

import uvloop

from authfabric.scenarios import Domain, ServerMode, stage
from benchmarks.events import writer
from benchmarks.harness import at_least, at_most, best_of_each, main
from benchmarks.processes.history_publisher import ATTRIBUTES, DRUGS, fetch, fill
from benchmarks.workloads.rules import events, judge
from pdp.bundle import File
from pubsub_core.client import EventClient
from pubsub_core.events import Event
from pubsub_core.history import MAPPED_BYTES
from pubsub_core.rules import Judge
from pubsub_core.types import EventType, SignedType

PROMISES = {"rule_growth": at_most(3), "store_ratio": at_least(0.6), "replay_ratio": at_least(0.5)}

RULES = (10, 100, 1_000)
EVENTS = 2_000
PUBLISHED = 60_000
STORED = 1_000_000
ROUNDS = 8
REPLAYS = 40
FETCHES = 3
OPEN = "- {uid: open, effect: allow, rules: {}, targets: {action_id: '%s'}}\n"
ACTIONS = ("connect", "advertise", "publish", "subscribe")
REPLAY = """
all: ALLOW REPLAY OF bench.Prescribe WHERE credentials(user, auditor) AND sub.drug <> NULL
some: RESTRICT DELIVERY OF bench.Prescribe WHERE credentials(user, auditor) FILTER amount >= 0
blur: TRANSFORM EVENT bench.Prescribe TO bench.Prescribe ON notify EXECUTE null(patient) THEN round(amount, 10)
"""


def run() -> dict[str, float]:
    """What interaction control costs: rules about each event, keeping what is published, and having it replayed."""
    return {name: value for part in PARTS.values() for name, value in part().items()}


def rules() -> dict[str, float]:
    """Microseconds by which an event is judged, with more and more rules about its type, and how that grows."""
    works = {str(count): partial(show, judge(count), events(count, EVENTS)) for count in RULES}
    taken = best_of_each(works, clock=thread_time)  # type: ignore[arg-type]
    costs = {f"rule_us_{count}": taken[str(count)] / EVENTS * 1e6 for count in RULES}
    return costs | {"rule_growth": taken[str(RULES[-1])] / taken[str(RULES[0])]}


def show(judge: Judge, shown: list[Event]) -> int:
    """How many of the events are let through."""
    return sum(judge.show(each, 20.0) is not None for each in shown)


@contextlib.asynccontextmanager
async def staged() -> AsyncIterator[tuple[Domain, EventType, EventType]]:
    """A domain with two types; auditors may have the second replayed."""
    async with stage(["bench"], ServerMode.OPEN) as (domain,):
        names = ("bench.Visit", "bench.Prescribe")
        visit, prescribe = (EventType.new(each, domain.key.public, ATTRIBUTES, uuid4) for each in names)
        await domain.publish_types(*(SignedType.sign(each, domain.key) for each in (visit, prescribe)))
        policies = "".join(OPEN.replace("open", each, 1) % each for each in ACTIONS)
        await domain.release([File("events.yaml", policies), File("events.rules", REPLAY)])
        await domain.start_pdp()
        yield domain, visit, prescribe


async def storing() -> dict[str, float]:
    """Events a second, published with and without a history."""
    async with staged() as (domain, visit, _):
        return await _storing(domain, visit)


async def replaying() -> dict[str, float]:
    """Events a second, replayed, beside what SQL alone would take."""
    async with staged() as (domain, _, prescribe):
        return await _replaying(domain, prescribe)


async def _storing(domain: Domain, kind: EventType) -> dict[str, float]:
    """Publishing at a broker that keeps everything and at one that keeps nothing, in turn."""
    key = ["--history-key", str(domain.folder / "keeps.history.key")]
    history = ["--history", f"sqlite:///{domain.folder / 'keeps.db'}", *key]
    await domain.start_broker([domain], domain.key, history, name="keeps")
    await domain.start_broker([domain], domain.key, name="forgets")
    await domain.start_broker([domain], domain.key, name="reads")
    rates: dict[str, list[float]] = {"keeps": [], "forgets": []}
    for _ in range(ROUNDS):
        for name, found in rates.items():
            found.append(await _publish(domain, kind, name))
    kept, plain = max(rates["keeps"]), max(rates["forgets"])
    for name in ("keeps", "forgets", "reads"):
        await domain.processes.pop(name).stop()
    return {"stored_per_second": kept, "published_per_second": plain, "store_ratio": kept / plain}


async def _publish(domain: Domain, kind: EventType, broker: str) -> float:
    """Events a second from a publisher at one broker to a subscriber at another."""
    async with domain.client("reader", {}, broker="reads") as reader:
        subscriber = await reader.subscriber(kind.name, "amount >= 0")
        words = [domain.url, *writer(domain), kind.name, broker, str(PUBLISHED)]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.processes.history_publisher",
            *words,
            stdout=asyncio.subprocess.DEVNULL,
        )
        await anext(subscriber)
        start = perf_counter()
        for _ in range(PUBLISHED - 1):
            await anext(subscriber)
        seconds = perf_counter() - start
        await child.wait()
    return PUBLISHED / seconds


async def _replaying(domain: Domain, kind: EventType) -> dict[str, float]:
    """One in a hundred of a million events, by policy, filter and transformation, and the same rows by SQL alone."""
    path, secret, start = domain.folder / "past.db", secrets.token_bytes(32), perf_counter()
    fill(f"sqlite:///{path}", secret, "past", kind, STORED, time() - STORED)
    seconds = perf_counter() - start
    key = domain.folder / "past.history.key"
    key.write_text(secret.hex())
    key.chmod(0o600)
    keep = domain.folder / "keep.yaml"
    keep.write_text("- {type: bench.*, search: {drug: blind}}\n")
    words = ["--history", f"sqlite:///{path}", "--history-key", str(key), "--keep", str(keep)]
    await domain.start_broker([domain], domain.key, words, name="past")
    replayed, plain, mapped = [], [], []
    async with domain.client("auditor", {"roles": ["auditor"]}, broker="past") as auditor:
        await _replay(auditor, kind, REPLAYS)  # a broker that has just started waits for others to say hello
        for number in range(REPLAYS):
            plain.append(_plain(path, secret, kind, f"drug{number}"))
            mapped.append(_plain(path, secret, kind, f"drug{number}", MAPPED_BYTES))
            replayed.append(await _replay(auditor, kind, number))
    return {
        "fill_seconds": seconds,
        "replayed_per_second": max(replayed),
        "fetched_per_second": max(plain),
        "replay_ratio": max(replayed) / max(plain),
        "replay_ratio_mapped": max(replayed) / max(mapped),
    }


async def _replay(auditor: EventClient, kind: EventType, number: int) -> float:
    start = perf_counter()
    found = [each async for each in await auditor.replay(kind.name, f"drug = 'drug{number}'")]
    assert len(found) == STORED / DRUGS
    return len(found) / (perf_counter() - start)


def _plain(path: Path, secret: bytes, kind: EventType, drug: str, mapped: int = 0) -> float:
    """Rows a second, fetched as often as takes about as long as a replay: the machine is quick and slow by turns."""
    start = perf_counter()
    fetched = sum(fetch(path, secret, kind, drug, mapped) for _ in range(FETCHES))
    return fetched / (perf_counter() - start)


PARTS: dict[str, Callable[[], dict[str, float]]] = {
    "rules": rules,
    "storing": lambda: uvloop.run(storing()),
    "replaying": lambda: uvloop.run(replaying()),
}

if __name__ == "__main__":
    main(run, parts=PARTS, one_by_one=True)
