"""What members say costs little however many there are, and whoever calls the roll hears of all of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from bus import Connection, NatsServer
from bus.feeds.member_tracker_service import GROUPS, MemberPoll, MemberTracker
from bus.feeds.status_reporter import StatusReporter
from bus.wire.messages import MemberStatus, unpack_member_status
from bus.wire.subjects import members, roll
from tests.waiting import eventually

REPLICAS, PEPS = 24, 40


class World:
    def __init__(self, server: NatsServer, stack: contextlib.AsyncExitStack) -> None:
        self.server = server
        self._stack = stack

    async def connect(self) -> Connection:
        return await self._stack.enter_async_context(Connection(self.server.url))

    async def replica(self, number: int) -> MemberTracker:
        keeper = MemberTracker(await self.connect(), "shop", f"pdp-{number}")
        return await self._stack.enter_async_context(keeper)

    async def member(self, name: str, lease: float = 60.0) -> tuple[Connection, StatusReporter]:
        bus = await self.connect()
        status = MemberStatus(name, "sdp", "shop", 1, lease=lease, release="first")
        return bus, await self._stack.enter_async_context(StatusReporter(bus, status))

    async def caller(self) -> MemberPoll:
        return await self._stack.enter_async_context(MemberPoll(await self.connect(), "shop"))


@pytest.fixture
async def world(server) -> AsyncIterator[World]:
    async with contextlib.AsyncExitStack() as stack:
        yield World(server, stack)


async def test_a_word_of_a_member_reaches_a_few_replicas_however_many_there_are(world):
    heard = Counter[int]()
    keepers = [await world.replica(number) for number in range(REPLICAS)]
    for number, keeper in enumerate(keepers):
        hear = keeper.members.hear
        keeper.members.hear = lambda *said, number=number, hear=hear: heard.update([number]) or hear(*said)
    said = Counter[str]()
    listening = await world.connect()
    await listening.listen(
        members("shop"), lambda s, r, data, h: said.update([unpack_member_status(data).member])
    )
    await listening.flush()
    peps = [await world.member(f"pep-{number}") for number in range(PEPS)]
    for _, pep in peps:
        pep.say(2, "second")
    await eventually(lambda: sum(said.values()) >= 2 * PEPS)
    groups = len({keeper._group for keeper in keepers})
    assert groups <= GROUPS
    await eventually(lambda: heard.total() >= said.total() * groups)
    assert heard.total() == said.total() * groups
    known = Counter(name for keeper in keepers for name in keeper.members.named())
    assert min(known.values()) >= min(groups, 2), "each is known by several replicas"
    assert len(known) == PEPS


async def test_whoever_calls_the_roll_hears_everyone_who_is_there_and_asks_replicas_for_nobody_else(world):
    for number in range(3):
        await world.member(f"pep-{number}")
    keeper, marks = await world.replica(1), list[int]()
    rolls = keeper.members.rolls
    keeper.members.rolls = lambda now, but=(): marks.append(len(but)) or rolls(now, but)
    caller = await world.caller()
    await eventually(lambda: len(caller.members) == 3)  # though the replica came after all of them
    await eventually(lambda: marks)
    assert marks[0] == 3


async def test_a_member_that_is_silent_when_the_roll_is_called_is_named_by_the_replicas(world):
    keeper = await world.replica(1)
    bus, _ = await world.member("pep-1")
    await eventually(lambda: "pep-1" in keeper.members.named())
    bus.ready = False  # cut off: what it says reaches nobody
    caller = await world.caller()
    await eventually(lambda: "pep-1" in caller.members.named())


async def test_a_replica_that_starts_learns_whom_others_have_heard(world):
    first = await world.replica(1)
    bus, _ = await world.member("pep-1")
    await eventually(lambda: "pep-1" in first.members.named())
    bus.ready = False
    second = await world.replica(2)
    await eventually(lambda: "pep-1" in second.members.named())


async def test_calling_the_roll_again_and_again_brings_no_more_answers_than_one_a_second(world):
    said = list[MemberStatus]()
    listening = await world.connect()
    await listening.listen(members("shop"), lambda s, r, data, h: said.append(unpack_member_status(data)))
    await listening.flush()
    _, pep = await world.member("pep-1")
    await eventually(lambda: said)
    caller = await world.caller()
    for _ in range(1000):
        caller.call()
    await caller.read_all()
    await eventually(lambda: len(said) == 2)
    pep.say(2, "second")
    await eventually(lambda: said[-1].epoch == 2)
    assert len(said) == 3


async def test_what_is_no_question_is_not_answered(world):
    await world.replica(1)
    bus = await world.connect()
    for payload in (b"", b"\xff", b"nonsense"):
        bus.send(roll("shop"), payload, bus.own_place)
    bus.send(roll("shop"), b"", members("shop"))
    await bus.flush()
    caller = await world.caller()
    await world.member("pep-1")
    await eventually(lambda: "pep-1" in caller.members.named())
