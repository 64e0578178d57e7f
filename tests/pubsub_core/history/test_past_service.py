"""The past that other brokers have: asked for once they can be known, and believed as what is present is."""

from __future__ import annotations

import asyncio
from math import inf, nan

import msgspec
import pytest

from pubsub_core.delivery.replay_stream import Playback
from pubsub_core.errors import InvalidEvent
from pubsub_core.events.batch_signature import WINDOW
from pubsub_core.events.event import Event, encode
from pubsub_core.history.page_messages import PageFound, PageWanted
from pubsub_core.replay.page_service import Pages
from pubsub_core.replay.service import Replays
from tests.pubsub_core.pair import KIND, Pair
from tests.waiting import PATIENCE


def dated(time: float) -> msgspec.Raw:
    return msgspec.Raw(encode(Event(KIND.id, KIND.version, b"k" * 32, time, 1, {})))


@pytest.mark.parametrize("ahead", [WINDOW + 1.0, inf, nan, -inf, -1e6])
async def test_a_time_that_cannot_be_is_not_taken_from_another_broker(monkeypatch, ahead):
    pair = Pair()
    pages = Pages(pair.home)

    async def answer(self, name, wanted):
        return PageFound(b"", [dated(999.0), dated(pair.now + ahead), dated(pair.now + WINDOW)])

    monkeypatch.setattr(Pages, "_ask", answer)
    _, found = await pages.ask("away", PageWanted(b"", KIND.id))
    assert [event.time for some in found for event, _ in some] == [999.0, pair.now + WINDOW]
    assert pair.home.counts.forged == 1


async def test_nobody_is_sent_the_past_before_this_broker_has_made_itself_known_to_others():
    pair = Pair()
    replays = Replays(pair.home, Pages(pair.home), None)
    playback = Playback("pub", 1, KIND.id, "", refused="it is over as soon as it begins")
    playing = asyncio.create_task(replays._play(pair.session, playback))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not playing.done()
    replays.tick()
    await asyncio.wait_for(playing, PATIENCE)


async def test_what_comes_before_an_event_that_cannot_be_read_is_handed_on():
    pair = Pair()
    pages = Pages(pair.home)
    pages.keeper = Kept([dated(1.0), dated(2.0), msgspec.Raw(b"\xc1"), dated(3.0)])
    _, found = await pages.ask("home", PageWanted(b"", KIND.id))
    coming = iter(found)
    assert [next(coming)[0][0].time for _ in range(2)] == [1.0, 2.0]
    with pytest.raises(InvalidEvent):
        next(coming)


class Kept:
    """A history that holds just these, in whatever bytes."""

    def __init__(self, events: list[msgspec.Raw]) -> None:
        self._events = events

    async def page(self, wanted, *_, **__):
        return PageFound(wanted.id, self._events)
