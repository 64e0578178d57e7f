"""Whom a client connects to, of several brokers."""

from __future__ import annotations

import asyncio
import gc

import pytest

from bus.errors import NoResponders
from pubsub_core.client import broker_selection


async def met(broker: str) -> str:
    return broker


async def nobody(broker: str) -> str:
    raise NoResponders(broker)


def listening() -> list[str]:
    """What the event loop is told of errors that nobody has looked at."""
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    return told


async def test_a_broker_that_fails_as_another_answers_is_looked_at_too():
    unseen = listening()
    for _ in range(20):  # which of them is looked at first is for the set to say
        assert await broker_selection._first([nobody("north"), met("south"), nobody("west")]) == "south"
    gc.collect()
    assert unseen == []


async def test_where_none_answers_the_reason_is_told():
    unseen = listening()
    with pytest.raises(NoResponders, match=r"north|west"):
        await broker_selection._first([nobody("north"), nobody("west")])
    gc.collect()
    assert unseen == []
