"""What clients have asked for is asked anew, little by little, and as much of it as policies may touch."""

from __future__ import annotations

import asyncio
import gc

import pytest

from bus.runtime import event_loop
from pubsub_core.access.restriction import UNRESTRICTED
from pubsub_core.access.rights import Granted
from pubsub_core.broker import reauthorization
from pubsub_core.broker.reauthorization import BATCH, Claims
from tests.pubsub_core.pair import KIND, Pair

MANY = 3 * BATCH + 1


class Generous:
    """Rights that leave everything, and remember what they were asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.begun = asyncio.Event()

    async def grants(self, asks, now, at_least):
        self.asked.append(len(asks))
        self.begun.set()
        return iter([Granted({KIND.id: UNRESTRICTED}) for _ in asks])


@pytest.fixture
def crowd() -> tuple[Pair, Claims, Generous]:
    pair, rights = Pair(), Generous()
    for number in range(MANY):
        pair.subscribe(f"speed > {number}")
    return pair, Claims(pair.away, rights, {}, lambda types: None), rights  # type: ignore[arg-type]


async def test_others_have_their_turns_while_everything_is_asked_anew(crowd, monkeypatch):
    monkeypatch.setattr(event_loop, "TURN_SECONDS", 0.0)
    _, claims, rights = crowd
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await claims.reauthorize(1)
    task.cancel()
    assert turns >= MANY
    assert sum(rights.asked) == MANY
    assert max(rights.asked) == BATCH


async def test_what_policies_cannot_touch_is_not_asked_again(crowd):
    _, claims, rights = crowd
    await claims.reauthorize(1, types={"another"})
    assert not rights.asked
    await claims.reauthorize(2, types={KIND.id, "another"})
    assert sum(rights.asked) == MANY


async def test_what_is_being_asked_by_older_policies_is_given_up(crowd, monkeypatch):
    monkeypatch.setattr(event_loop, "TURN_SECONDS", 0.0)
    _, claims, rights = crowd
    first = asyncio.create_task(claims.reauthorize(1))
    await rights.begun.wait()
    claims.epoch = 2
    await first
    assert rights.asked == [BATCH]


async def test_garbage_is_looked_for_little_by_little(crowd, monkeypatch):
    monkeypatch.setattr(reauthorization, "LOOK", BATCH)
    _, claims, rights = crowd
    looks = []

    def note(phase, about):
        if phase == "start":
            looks.append(sum(rights.asked))

    gc.disable()
    gc.callbacks.append(note)
    try:
        await claims.reauthorize(1)
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    assert looks == [0, BATCH, 2 * BATCH]
