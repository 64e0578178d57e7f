"""Brokers as processes that are killed and frozen: subscribers are told of what they miss, before anything later."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

from authfabric.scenarios.testbed import Domain, ServerMode, stage
from pubsub_core import EventType, GapReason, Publisher
from pubsub_core.types.signature import SignedType
from tests.pubsub_core.streams import Stream, untold
from tests.waiting import eventually

OPEN = "- {uid: open, effect: allow, rules: {}, targets: {}}\n"


@dataclass
class Wire:
    """A publisher of numbered events at `north`, and readers there and at `south`."""

    domain: Domain
    publisher: Publisher
    near: Stream
    far: Stream
    published: int = 0

    async def publish(self) -> None:
        """Go on for ever."""
        while True:
            for _ in range(10):
                await self.publisher.publish(number=self.published)
                self.published += 1
            await self.publisher.flush()
            await asyncio.sleep(0.005)

    async def readers(self) -> None:
        """Return when each has read something that was published after this was called."""
        number = self.published + 20
        await asyncio.gather(self.near.until(number), self.far.until(number))


@contextlib.asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    async with stage(["bench"], ServerMode.OPEN) as (domain,):
        kind = EventType.new("bench.Sighting", domain.key.public, [("number", "integer")], uuid4)
        await domain.publish_types(SignedType.sign(kind, domain.key))
        await domain.release(OPEN, force="what crashes do is the question")
        await domain.start_pdp()
        await asyncio.gather(
            *(domain.start_broker([domain], domain.key, name=name) for name in ("north", "south"))
        )
        async with (
            domain.client("writer", {}, broker="north") as writer,
            domain.client("neighbour", {}, broker="north") as neighbour,
            domain.client("reader", {}, broker="south") as reader,
        ):
            near, far = await neighbour.subscriber(kind.name), await reader.subscriber(kind.name)
            publisher = await writer.publisher(kind.name)
            made = Wire(domain, publisher, Stream(near), Stream(far))
            await _joined(made)
            task = asyncio.create_task(made.publish())
            try:
                yield made
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _joined(made: Wire) -> None:
    """Return when what is published at one broker arrives at the other: from there on, everything is owed."""
    reading = asyncio.create_task(anext(made.far.subscriber))
    while not reading.done():
        await made.publisher.publish(number=made.published)
        made.published += 1
        await made.publisher.flush()
        await asyncio.wait([reading], timeout=0.1)
    event = await reading
    made.far.read.append(event["number"])


async def test_a_publishers_broker_that_is_killed_takes_nothing_with_it():
    """What it had not acknowledged is published again, and reaches the subscribers of other brokers once."""
    async with wire() as made:
        await made.readers()
        await made.domain.restart_broker("north")
        await made.readers()
        assert GapReason.SESSION in {gap.reason for gap in made.near.gaps}
        assert not untold(made.near.read, 0)
        first, last = made.far.numbers[0], made.far.numbers[-1]
        assert made.far.numbers == list(range(first, last + 1))
        assert not made.far.gaps


async def test_of_what_a_subscribers_broker_that_is_killed_takes_with_it_subscribers_are_told():
    async with wire() as made:
        await made.readers()
        await made.domain.restart_broker("south")
        await made.readers()
        assert GapReason.SESSION in {gap.reason for gap in made.far.gaps}
        assert not untold(made.far.read, made.far.numbers[0])
        assert made.near.numbers == list(range(made.near.numbers[-1] + 1)), "its broker went on"


async def test_a_broker_that_was_frozen_goes_on_where_it_was():
    """Longer than the others take it to be there."""
    async with wire() as made:
        await made.readers()
        south, begun = made.domain.processes["south"], made.published
        south.freeze()
        await eventually(lambda: made.published > begun + 5_000, 60)
        south.thaw()
        await made.readers()
        first, last = made.far.numbers[0], made.far.numbers[-1]
        assert made.far.numbers == list(range(first, last + 1))
        assert not made.far.gaps
        assert made.near.numbers == list(range(made.near.numbers[-1] + 1))
