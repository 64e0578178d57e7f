"""Brokers of a group share a history in PostgreSQL: each event is in it once, and any of them replays it."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from pubsub_core.events.event import Event, encode
from pubsub_core.history.at_rest import EventCipher
from pubsub_core.history.errors import HistoryUnavailable
from pubsub_core.history.position import ALWAYS
from pubsub_core.history.retention import Keeping
from pubsub_core.history.storage.reading import Reading
from pubsub_core.history.storage.store import HistoryStore
from pubsub_core.types.event_type import AttributeType
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.databases import postgresql
from tests.pubsub_core.history.test_replay import ATTRIBUTES, publish, setting
from tests.waiting import eventually

__all__ = ["place", "postgresql"]

TYPE, ATTRIBUTE = "7" * 32, "a" * 32
_numbers = itertools.count()


@pytest.fixture
def shared(postgresql) -> str:
    """An empty database."""
    name = f"shared{next(_numbers)}"
    postgresql.psql(f"CREATE DATABASE {name};")
    return str(postgresql.get_uri(name)).replace("postgresql://", "postgresql+psycopg://", 1)


def event(number: int) -> tuple[Event, bytes]:
    made = Event(TYPE, "v" * 32, b"p" * 32, float(number), number, {ATTRIBUTE: number})
    return made, encode(made)


async def test_what_several_write_at_the_same_time_is_there_once_and_in_one_chain(shared):
    """They begin together, and a part of what each has the others have, too."""
    keeping = Keeping(TYPE, {ATTRIBUTE: AttributeType.INTEGER}, {})

    def write(first: int) -> int:
        with HistoryStore(shared, EventCipher(b"h" * 32), "five") as store:
            store.keep(keeping)
            starts = range(first, first + 200, 20)
            return sum(store.append([event(number) for number in range(at, at + 40)]) for at in starts)

    new = await asyncio.gather(*(asyncio.to_thread(write, first) for first in (0, 60, 120)))
    with HistoryStore(shared, EventCipher(b"h" * 32), "five") as store:
        page = store.read(Reading(TYPE, ALWAYS))
        assert [each.sequence for each in page.events] == list(range(340))
        assert sum(new) == 340
        assert list(store.verify(TYPE)) == [340]
    with pytest.raises(HistoryUnavailable, match="it is that of `five`"):
        HistoryStore(shared, EventCipher(b"h" * 32), "another")


async def test_a_replay_survives_the_broker_that_hosted_the_publisher(shared, place):
    """Each event comes once, although both brokers have been there; and nothing is missing when one is gone."""
    kind = await place.define("Prescribe", *ATTRIBUTES)
    more = {"history": setting(shared), "group": f"pair-{place.domain}"}
    south = await place.broker("south", **more)
    async with place.running("north", **more) as north:
        async with place.connected("ann", "north") as writer:
            await publish(writer, kind, range(20))
        await eventually(lambda: north.broker.setting.name in south.broker.peers)
        reader = await place.client("eve", "south")
        both = [event["amount"] async for event in await reader.replay(kind.name)]
        assert both == list(range(20))
        north.presence.say_hello = lambda leaving=False: None  # it goes without a word, as if it were killed
    async with place.connected("ann", "south") as writer:
        await publish(writer, kind, range(20, 25))
    alone = [event["amount"] async for event in await reader.replay(kind.name)]
    assert alone == list(range(25))
