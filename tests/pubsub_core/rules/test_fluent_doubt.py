"""A fluent is in doubt until everybody has answered who may know of it, or was given up."""

from __future__ import annotations

import pytest

from authz import Identity
from pubsub_core.carriage.records import Peer
from pubsub_core.history.fluent_periods import periods
from pubsub_core.replay.fluent_uncertainty import (
    HELD_SECONDS,
    PATIENCE_SECONDS,
    SETTLE_SECONDS,
    UNHEARD_SECONDS,
    Doubts,
)
from pubsub_core.rules.context import Unknowable
from pubsub_core.rules.observer import Common
from pubsub_core.trust.broker_trust import Web
from pubsub_core.trust.vouches import vouch
from tests.pubsub_core.conftest import place
from tests.pubsub_core.kinds import PITO
from tests.pubsub_core.pair import KIND, Pair
from tests.pubsub_core.rules.test_live import policy, release, take
from tests.waiting import eventually

__all__ = ["place"]

NAME = "racing"
SHARED = Common(frozenset({KIND.id}), b"d")


@pytest.fixture(autouse=True)
def _certain():
    """Here the times are what they are."""


class Scene:
    """A broker that follows one shared fluent, and hears one other broker."""

    def __init__(self, shared: Common = SHARED) -> None:
        self.pair = Pair()
        self.broker = self.pair.home
        key = str(self.pair.away.setting.identity.public)
        away = Peer("away", "met", key, self.pair.now, carries={KIND.id})
        self.broker.presence.peers["away"] = away
        self.broker.presence.met["away"] = key, self.pair.now
        self.context = self.broker.setting.rules.context
        self.context.defined = {NAME: 1}
        self.web = Web()
        self.doubts = Doubts(self.broker, self.web)
        self.define(shared)

    def define(self, shared: Common) -> None:
        self.broker.observer.common = {NAME: shared}
        self.doubts.begin()

    def vouch(self) -> str:
        """The word of the type's owner for a broker that is not there; its key."""
        key = Identity.generate().public
        self.web.pin(vouch(key, [KIND.id], self.pair.now + 1000, PITO))
        return str(key)

    @property
    def doubted(self) -> bool:
        """Whether the fluent can be asked about neither now nor for the past."""
        asked = (
            lambda: self.context.holds(NAME, ("p",), 1.0),
            lambda: periods(self.context, f"{NAME}('p')", ""),
            lambda: periods(self.context, "", f"{NAME}('p')"),
        )
        return all(map(_is_unknowable, asked))


def _is_unknowable(ask) -> bool:
    try:
        ask()
    except Unknowable:
        return True
    return False


def test_a_fluent_is_in_doubt_until_the_brokers_that_are_there_have_answered():
    scene = Scene()
    scene.doubts.review(10.0)
    scene.doubts.review(10.0 + SETTLE_SECONDS)
    assert scene.doubted
    scene.doubts.answer("away", NAME, SHARED)
    scene.doubts.review(10.1 + SETTLE_SECONDS)
    assert not scene.doubted


def test_who_has_answered_is_not_all_before_others_could_make_themselves_known():
    scene = Scene()
    scene.doubts.review(10.0)
    scene.doubts.answer("away", NAME, SHARED)
    scene.doubts.review(9.9 + SETTLE_SECONDS)
    assert scene.doubted
    scene.doubts.review(10.0 + SETTLE_SECONDS)
    assert not scene.doubted


def test_a_broker_that_is_not_trusted_with_all_that_is_behind_a_fluent_is_not_waited_for():
    scene = Scene(shared=Common(frozenset({KIND.id, "another"}), b"d"))
    scene.doubts.review(10.0)
    scene.doubts.review(10.0 + SETTLE_SECONDS)
    assert not scene.doubted


def test_whoever_does_not_answer_is_given_up_and_named(caplog):
    scene = Scene()
    scene.doubts.review(10.0)
    scene.doubts.review(9.9 + PATIENCE_SECONDS)
    assert scene.doubted
    scene.doubts.review(10.0 + PATIENCE_SECONDS)
    assert not scene.doubted
    assert "`racing` is gone by without having heard about it from `away`" in caplog.text


def test_a_broker_that_was_known_before_is_waited_for_although_it_is_not_heard(caplog):
    scene = Scene()
    old, now = Identity.generate().public, scene.pair.now
    scene.broker.presence._web.pin(vouch(old, [KIND.id], now + 1000, PITO))
    scene.broker.presence.met["old"] = str(old), now
    scene.broker.presence.met["stranger"] = str(Identity.generate().public), now
    scene.doubts.answer("away", NAME, SHARED)
    scene.doubts.review(10.0)
    scene.doubts.review(9.9 + PATIENCE_SECONDS)
    assert scene.doubted
    scene.doubts.review(10.0 + PATIENCE_SECONDS)
    assert not scene.doubted
    assert "from `old`" in caplog.text


def test_a_broker_that_somebody_vouches_for_is_waited_for_until_it_would_have_been_heard():
    scene = Scene()
    scene.vouch()
    scene.doubts.answer("away", NAME, SHARED)
    scene.doubts.review(10.0)
    scene.doubts.review(9.9 + UNHEARD_SECONDS)
    assert scene.doubted
    scene.doubts.review(10.0 + UNHEARD_SECONDS)
    assert not scene.doubted


def test_a_fluent_that_becomes_another_is_in_doubt_anew_and_the_same_is_not():
    scene = Scene()
    scene.doubts.answer("away", NAME, SHARED)
    scene.doubts.review(10.0)
    scene.doubts.review(10.0 + SETTLE_SECONDS)
    scene.define(SHARED)
    assert not scene.doubted
    other = Common(SHARED.types, b"e")
    scene.define(other)
    assert scene.doubted
    scene.vouch()
    scene.doubts.review(98.0)
    assert scene.doubted
    scene.doubts.answer("away", NAME, other)
    scene.doubts.review(98.1)
    assert not scene.doubted, "by now it would have been heard who is there"


def test_nothing_is_delivered_in_the_first_moments_and_then_all_that_does_not_depend_on_it(caplog):
    scene = Scene()
    scene.doubts.review(10.0)
    assert scene.broker.held
    scene.doubts.review(10.0 + HELD_SECONDS)
    assert not scene.broker.held
    assert scene.doubted
    assert "what depends on `racing` is withheld" in caplog.text
    scene.define(SHARED)
    assert not scene.broker.held, "it is no other doubt than before"


@pytest.mark.parametrize("ends", ["answer", "define"])
def test_what_was_held_back_goes_on_when_nothing_is_in_doubt_any_more(ends):
    scene = Scene()
    scene.doubts.review(10.0 - SETTLE_SECONDS)
    if ends == "answer":
        scene.doubts.answer("away", NAME, SHARED)
    else:
        scene.broker.observer.common = {}
        scene.doubts.begin()
    scene.doubts.review(10.0)
    assert not scene.broker.held
    assert not scene.context.doubted


RULES = """FLUENT treats(doctor, patient)
    INITIATED BY {0}.Admitted(doctor, patient) TERMINATED BY {0}.Gone(doctor, patient) SHARED"""


async def test_what_depends_on_a_fluent_is_withheld_until_others_have_said_what_they_know(place, monkeypatch):
    """Also what is to be seen only while the fluent does not hold, which would otherwise slip through at each start."""
    monkeypatch.setattr("pubsub_core.replay.fluent_uncertainty.HELD_SECONDS", 0.0)
    monkeypatch.setattr("pubsub_core.replay.fluent_uncertainty.PATIENCE_SECONDS", 1e6)
    kind = await place.define("Reading", ("patient", "string"), ("pulse", "integer"))
    both = [("doctor", "string"), ("patient", "string")]
    admitted, _ = await place.define("Admitted", *both), await place.define("Gone", *both)
    where = "NOT treats('doc', patient)"
    await release(
        place,
        policy("own", "subscribe", ("own", f"ALLOW SUBSCRIPTION TO {kind.name} WHERE {where}")),
        policy("follow", "observe", ("treats", RULES.format(place.domain))),
    )
    north = await place.broker("north")
    office = await place.client("office", "north")
    begin = await office.publisher(admitted.name)
    await begin.publish(doctor="doc", patient="p1")
    await begin.flush()
    monkeypatch.setattr(north.broker.observer, "told", False)
    south = await place.broker("south")
    rules = south.broker.setting.rules
    await eventually(lambda: rules.context.defined and not south.broker.held)
    reader = await place.client("reader", "south")
    readings, publisher = await reader.subscriber(kind.name), await reader.publisher(kind.name)
    for patient in ("p1", "p2"):
        await publisher.publish(patient=patient, pulse=1)
    await publisher.flush()
    await eventually(lambda: rules.counts.failed == 2)
    assert rules.context.doubted
    monkeypatch.setattr(north.broker.observer, "told", True)
    await eventually(lambda: not rules.context.doubted)
    for patient in ("p1", "p2"):
        await publisher.publish(patient=patient, pulse=2)
    await publisher.flush()
    assert await take(readings) == [("Reading", {"patient": "p2", "pulse": 2})]
    assert readings.unread == 0
