"""A broker that starts late knows the shared fluents that began before, and nobody tells them to strangers."""

from __future__ import annotations

from math import inf, nan
from time import time

import pytest

from authz import Identity
from bus.wire.envelope import pack
from pubsub_core.carriage.records import Peer
from pubsub_core.events.batch_signature import WINDOW
from pubsub_core.history.page_messages import MarksFound, MarksWanted, Past
from pubsub_core.history.retention import HistorySetting
from pubsub_core.replay.fluent_exchange_service import FluentExchange
from pubsub_core.replay.fluent_marks import tell_marks
from pubsub_core.replay.fluent_uncertainty import Doubts
from pubsub_core.replay.page_service import Pages
from pubsub_core.rules.fluents import Fluent, Fluents
from pubsub_core.rules.observer import Common
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.vouches import vouch
from tests.pubsub_core.conftest import place
from tests.pubsub_core.history.test_rules import AUDIT, CASE, PRESCRIBE, publish, release
from tests.pubsub_core.pair import Pair
from tests.waiting import eventually

__all__ = ["place"]

NAME = "underInvestigation"


def fluents(service):
    return service.broker.setting.rules.context.fluents


def holds(service, who: str) -> bool:
    return fluents(service).holds_at(Fluent(NAME, (who,)), time())


@pytest.fixture
async def city(place, tmp_path):
    """A broker with a history, at which investigations are opened and closed."""
    opened, closed = [await place.define(each, *CASE) for each in ("Opened", "Closed")]
    prescribe = await place.define("Prescribe", *PRESCRIBE)
    service = await place.broker(
        "city", history=HistorySetting(f"sqlite:///{tmp_path / 'city.db'}", b"h" * 32)
    )
    await release(place, AUDIT.format(prescribe=prescribe.name, opened=opened.name, closed=closed.name))
    return service, opened, closed


async def investigate(place, opened, closed):
    """Five investigations are opened, and one is closed again; who should hold by now, and the clerk."""
    clerk = await place.client("clerk", "city")
    await publish(clerk, opened, *({"prescriber": f"n{number}"} for number in range(5)))
    await publish(clerk, closed, {"prescriber": "n0"})
    return {f"n{number}": number > 0 for number in range(5)}, clerk


async def test_a_broker_that_starts_late_knows_what_began_before_and_hears_what_follows(
    place, city, monkeypatch
):
    monkeypatch.setattr("pubsub_core.replay.fluent_marks.PAGE", 2)
    service, opened, closed = city
    known, clerk = await investigate(place, opened, closed)
    late = await place.broker("late")
    await eventually(lambda: {who: holds(late, who) for who in known} == known)
    assert fluents(late).moments(NAME, -inf) == fluents(service).moments(NAME, -inf)
    await publish(clerk, closed, {"prescriber": "n1"})
    await eventually(lambda: not holds(late, "n1"))


async def test_of_times_that_it_does_not_remember_a_broker_notes_what_still_holds(place, city, monkeypatch):
    monkeypatch.setattr("pubsub_core.rules.observer.KEPT_SECONDS", 0.0)
    known, _ = await investigate(place, *city[1:])
    late = await place.broker("late")
    await eventually(lambda: {who: holds(late, who) for who in known} == known)


async def test_what_is_told_is_of_the_same_fluent_and_for_those_trusted_with_what_is_behind_it(place, city):
    service, opened, _ = city
    await publish(await place.client("clerk", "city"), opened, {"prescriber": "n1"})
    stranger = Identity.generate()
    word = vouch(stranger.public, [opened.id], time() + 1000, place.key)
    await place.broker("half", identity=stranger, vouches=(word,))
    peers = service.broker.peers
    name = f"half-{place.domain}"  # other tests of this server may have left brokers that say goodbye late
    await eventually(lambda: name in peers and opened.id in peers[name].carries)
    half = peers[name]
    definition = service.broker.observer.common[NAME].definition

    def told(name: str, definition: bytes):
        return tell_marks(service.broker, half, MarksWanted(b"", opened.id, name, definition, -inf))

    assert "does not trust us" in told(NAME, definition).problem
    assert "no such fluent" in told(NAME, b"another").problem
    assert "no such fluent" in told("treating", definition).problem

    def told_in_trust():
        half.carries |= service.broker.observer.common[NAME].types
        return [(who, begins) for who, _, begins in told(NAME, definition).marks]

    await eventually(lambda: told_in_trust() == [(("n1",), True)])


@pytest.mark.parametrize("apart", [1.0, 0.0])
def test_no_more_is_told_at_once_than_goes_into_a_message_and_all_of_it_in_the_end(apart):
    """Also of one moment."""
    rule, long = Common(frozenset("t"), b"d"), "x" * 1000
    moments = Fluents()
    for number in range(1500):
        moments.initiate(Fluent(NAME, (f"{long}{number}",)), 1.0 + number * apart)
    pair = Pair()
    pair.home.observer.common = {NAME: rule}
    pair.home.setting.rules.context.fluents = moments
    peer = Peer("away", "met", "key", pair.now, carries={"t"})
    pair.home.observer.told = True
    pages = [tell_marks(pair.home, peer, MarksWanted(b"", "t", NAME, b"d"))]
    while pages[-1].after is not None:
        assert len(pack(Past(pages[-1]))) < 300 * 1024
        moments.initiate(Fluent(NAME, ("a",)), 1.0)  # what comes in between shifts nothing
        asked = MarksWanted(b"", "t", NAME, b"d", pages[-1].after, beyond=pages[-1].beyond)
        pages.append(tell_marks(pair.home, peer, asked))
    assert len(pages) > 4
    found = [each for page in pages for each in page.marks]
    assert sorted(each[0] for each in found) == sorted((f"{long}{number}",) for number in range(1500))


@pytest.mark.parametrize("ahead", [WINDOW + 1.0, inf, nan, -inf, -1e6])
async def test_what_no_event_can_have_said_is_not_believed(monkeypatch, ahead):
    pair = Pair()
    context = pair.home.setting.rules.context
    context.defined = {NAME: 1}
    pages = Pages(pair.home)
    marks = [(("n1",), 999.0, True), (("n2",), pair.now + ahead, True), (("n3", "n4"), 999.0, True)]

    async def answer(name, wanted):
        return MarksFound(b"", marks)

    monkeypatch.setattr(pages, "ask_marks", answer)
    exchange = FluentExchange(pair.home, pages, Doubts(pair.home, Web()))
    pair.home.interest.version = inf
    await exchange._ask_pages("away", NAME, Common(frozenset("t"), b"d"))
    assert [arguments for _, _, arguments, _ in context.fluents.moments(NAME, -inf)] == [("n1",)]
