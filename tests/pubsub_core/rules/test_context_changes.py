"""The state of affairs changes while events flow: each broker goes by it from one event to the next."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import count

import pytest

from pubsub_core.stores.table_store import TableStore
from tests.pubsub_core.rules.test_live import TREATS, policy, release
from tests.waiting import eventually

READING = [("number", "integer"), ("patient", "string"), ("ward", "string")]
WARDS = ("C3", "C4")


class Stream:
    """Readings of one patient, numbered and without an end, by turns from two wards."""

    def __init__(self, publisher) -> None:
        self._publisher = publisher
        self.published = -1
        """The number of the last."""

    async def _flow(self) -> None:
        for number in count():
            await self._publisher.publish(number=number, patient="p", ward=WARDS[number % 2])
            await self._publisher.flush()
            self.published = number

    @contextlib.asynccontextmanager
    async def flowing(self):
        task = asyncio.create_task(self._flow())
        try:
            yield self
        finally:
            task.cancel()

    async def go_on(self) -> int:
        """Return when some more were published, with the number of the last before."""
        before = self.published
        await eventually(lambda: self.published > before + 20)
        return before


class Reader:
    """What one doctor has seen."""

    def __init__(self, subscriber) -> None:
        self._subscriber = subscriber
        self.numbers: list[int] = []

    @property
    def ward(self) -> str:
        """That of the last."""
        return WARDS[self.numbers[-1] % 2] if self.numbers else ""

    async def read(self) -> None:
        async for event in self._subscriber:
            self.numbers.append(event["number"])


@pytest.fixture
async def ward(place):
    """A broker where readings are published, and two where a doctor each reads what rules let them."""
    kind = await place.define("Reading", *READING)
    both = [("doctor", "string"), ("patient", "string")]
    kinds = [kind, await place.define("Admitted", *both), await place.define("Discharged", *both)]

    async def begin(where: str):
        allow = policy("own", "subscribe", ("own", f"ALLOW SUBSCRIPTION TO {kind.name} WHERE {where}"))
        await release(place, allow, policy("follow", "observe", ("treats", TREATS.format(place.domain))))
        home = await place.broker("home")
        readers = []
        for name in ("north", "south"):
            await place.broker(name)
            doctor = await place.client(f"doc-{name}", name)
            readers.append(Reader(await doctor.subscriber(kind.name)))
        await eventually(
            lambda: sum(kind.id in each.wants for each in home.broker.peers.values()) == len(readers)
        )
        await eventually(lambda: not any(each.broker.held for each in place.services))
        office = await place.client("office", "home")
        return readers, Stream(await office.publisher(kind.name))

    return place, kinds, begin


@contextlib.asynccontextmanager
async def reading(readers):
    tasks = [asyncio.create_task(each.read()) for each in readers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def test_a_fluent_that_begins_and_ends_at_another_broker_opens_and_closes_what_flows_everywhere(ward):
    place, (_, admitted, discharged), begin = ward
    readers, stream = await begin("treats('any', patient)")
    fluents = [each.broker.setting.rules.context.fluents for each in place.services]
    clerk = await place.client("clerk", "south")
    start, end = await clerk.publisher(admitted.name), await clerk.publisher(discharged.name)
    async with stream.flowing(), reading(readers):
        before = await stream.go_on()
        assert not any(each.numbers for each in readers)
        await start.publish(doctor="any", patient="p")
        await eventually(lambda: all(len(each.numbers) > 20 for each in readers))
        await end.publish(doctor="any", patient="p")
        await eventually(lambda: all(len(each) == 2 for each in fluents))
        closed = stream.published + 1  # the next may be under way to be judged
        await stream.go_on()
        await start.publish(doctor="any", patient="p")
        await eventually(lambda: all(each.numbers[-1] > closed for each in readers))
    for each in readers:
        first, *gaps = _runs(each.numbers)
        assert first[0] > before
        assert first[-1] <= closed
        assert len(gaps) == 1, "it was closed once, and let everything through otherwise"


async def test_a_table_that_is_changed_while_events_flow_counts_from_one_event_to_the_next(ward):
    place, _, begin = ward
    tables = TableStore(place.bus, place.domain, {place.key.public})
    await tables.put("staff", {f"doc-{name}": {"ward": "C3"} for name in ("north", "south")}, place.key)
    readers, stream = await begin("ward = lookup('staff', user, 'ward')")
    known = [each.broker.setting.rules.context for each in place.services]
    await eventually(lambda: all("staff" in each.tables for each in known))
    async with stream.flowing(), reading(readers):
        for now, then in (("C3", "C4"), ("C4", "C3"), ("C3", "C4")):
            await eventually(lambda now=now: all(each.ward == now for each in readers))
            rows = {f"doc-{name}": {"ward": then} for name in ("north", "south")}
            await tables.put("staff", rows, place.key)
        await eventually(lambda: all(each.ward == "C4" for each in readers))
        await tables.remove("staff", place.key)
        await eventually(lambda: all("staff" not in each.tables for each in known))
        closed = stream.published + 1
        await stream.go_on()
    for each in readers:
        assert each.numbers[-1] <= closed
        runs = _runs(each.numbers, 2)
        assert [WARDS[run[0] % 2] for run in runs] == ["C3", "C4", "C3", "C4"]


def _runs(numbers: list[int], step: int = 1) -> list[list[int]]:
    """What was seen, parted where something is missing."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + step:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
