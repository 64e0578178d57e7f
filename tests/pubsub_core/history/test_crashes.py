"""Brokers that are killed while events are published: past and future together are everything, each event once."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from authfabric.scenarios.testbed import ServerMode, stage
from pubsub_core.types.event_type import EventType
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.history.databases import postgresql, url
from tests.waiting import eventually

__all__ = ["postgresql", "url"]

OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}}\n"
EARLY, LATE = 200, 1_200


async def read(subscriber, found: list[int]) -> None:
    """The numbers of events as they come, until there are enough of different ones."""
    while len(set(found)) < LATE:
        found.append((await anext(subscriber))["number"])


async def test_past_and_future_are_the_whole_exactly_once_although_both_brokers_are_killed(url, tmp_path):
    async with stage(["bench"], ServerMode.OPEN) as (domain,):
        kind = EventType.new("bench.Sighting", domain.key.public, [("number", "integer")], uuid4)
        await domain.publish_types(SignedType.sign(kind, domain.key))
        await domain.release(OPEN, force="what crashes do is the question")
        await domain.start_pdp()
        for name, where in (("north", url), ("south", f"sqlite:///{tmp_path / 'south.db'}")):
            key = ["--history", where, "--history-key", str(tmp_path / f"{name}.history.key")]
            await domain.start_broker([domain], domain.key, key, name)
        async with (
            domain.client("writer", {}, broker="north") as writer,
            domain.client("reader", {}, broker="south") as reader,
        ):
            publisher = await writer.publisher(kind.name)
            for number in range(EARLY):
                await publisher.publish(number=number)
            await publisher.flush()
            subscriber = await reader.subscriber(kind.name, from_=0.0)
            seen: list[int] = []
            working = asyncio.gather(read(subscriber, seen), publish(publisher))
            for name, after in (("north", 300), ("south", 500), ("north", 800)):
                await eventually(lambda after=after: len(seen) > after, 60)
                await domain.restart_broker(name)
            await working
            assert sorted(seen) == list(range(LATE))
            replayed = await reader.replay(kind.name)
            assert [each["number"] async for each in replayed] == list(range(LATE))


async def publish(publisher) -> None:
    for number in range(EARLY, LATE):
        await publisher.publish(number=number)
        if number % 10 == 9:
            await publisher.flush()
