"""How long a release that touches one type, with 10,000 subscriptions to it, stops the delivery of another."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from time import perf_counter
from uuid import uuid4

from authfabric.scenarios import Domain
from benchmarks.harness import progress
from bus.nats import Connection
from bus.wire import subjects, unpack_member_status
from pubsub_core.client import EventClient
from pubsub_core.types import AttributeType, EventType, SignedType

SUBSCRIPTIONS = 10_000
CLIENTS = 50
PUSHES = 2
AT_ONCE = 64
FORCE = "carriage is measured, not policies"
OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}}\n"
LIMITED = (
    "- {uid: crowd, effect: allow, rules: {}, targets: {resource_id: /types/bench.Crowd, action_id: subscribe},"
    " obligations: [{filter: 'lane < %d'}]}\n"
)


async def reauthorization(domain: Domain, other: EventType, writer: tuple[str, str]) -> dict[str, float]:
    """The longest pause of the other type's delivery, and how long it takes until all 10,000 were asked anew."""
    crowd = EventType.new("bench.Crowd", domain.key.public, [("lane", AttributeType.INTEGER)], uuid4)
    await domain.publish_types(SignedType.sign(crowd, domain.key))
    await domain.release(OPEN + LIMITED % 10, force=FORCE)
    await domain.start_broker([domain], domain.key, name="crowded")
    async with contextlib.AsyncExitStack() as stack:
        for number in range(CLIENTS):
            client = await stack.enter_async_context(domain.client(f"reader{number}", {}, broker="crowded"))
            await _subscribe(client, crowd.name, number)
        progress(f"{SUBSCRIPTIONS:,} subscriptions are there")
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.processes.paced_delivery",
            domain.url, *writer, other.name, "north", "crowded",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        await child.stdout.readline()

        async def longest() -> float:
            child.stdin.write(b"\n")  # type: ignore[union-attr]
            return float(await child.stdout.readline())  # type: ignore[union-attr]

        await asyncio.sleep(1.0)
        await longest()
        steady, pauses, times = [], [], []
        for number in range(PUSHES):
            await asyncio.sleep(1.0)
            steady.append(await longest())
            times.append(await reauthorize(domain, OPEN + LIMITED % (11 + number), brokers=3))
            pauses.append(await longest())
            progress(f"paused for {1000 * pauses[-1]:.0f} ms, and {1000 * steady[-1]:.0f} ms before")
        child.stdin.close()
        await child.wait()
    return {
        "reauthorize_ms_10000": 1000 * min(pauses),
        "reauthorize_ms_10000_longest": 1000 * max(pauses),
        "steady_pause_ms": 1000 * min(steady),
        "reauthorized_seconds_10000": min(times),
    }


async def _subscribe(client: EventClient, kind: str, number: int) -> None:
    each = SUBSCRIPTIONS // CLIENTS
    for start in range(0, each, AT_ONCE):
        await asyncio.gather(
            *(
                client.subscriber(kind, f"lane = {number * each + at}")
                for at in range(start, min(start + AT_ONCE, each))
            )
        )


async def reauthorize(domain: Domain, policies: str, brokers: int) -> float:
    """Seconds from the beginning of a push until all `brokers` enforce it."""
    async with Connection(domain.url) as bus:
        reached: dict[str, int] = {}
        news = asyncio.Event()

        def hear(subject: str, reply: str, data: bytes, headers: bytes) -> None:
            status = unpack_member_status(data)
            if status.kind == "broker":
                reached[status.member] = status.epoch
                news.set()

        await bus.listen(subjects.members(domain.name), hear)
        await bus.flush()
        start = perf_counter()
        epoch = await domain.release(policies, force=FORCE)
        while sum(each >= epoch for each in reached.values()) < brokers:
            news.clear()
            await news.wait()
        return perf_counter() - start
