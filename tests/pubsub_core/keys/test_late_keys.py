"""Keys that come later than what they are for: nothing is lost, emptied or out of order, and nothing waits for ever."""

from __future__ import annotations

import pytest

from pubsub_core import GapReason
from pubsub_core.carriage import awaiting_keys, sending
from pubsub_core.events.batch_signature import WINDOW
from pubsub_core.keys import DataKey, Plan
from pubsub_core.messages import Taken
from pubsub_core.trust.vouches import ALL, vouch, withdraw
from tests.pubsub_core.kinds import PITO
from tests.pubsub_core.pair import KIND, Pair

PLAN = Plan.each(each.id for each in KIND.attributes).of(KIND.id)
SPEEDS = [10.0, 20.0, 30.0]


class Slow:
    """A recorder that has kept things when it is told so."""

    full = False

    def __init__(self) -> None:
        self.waiting = []

    def record(self, events, done, replaced=()) -> None:
        self.waiting.append(done)


def give(broker, *groups: str, epoch: int = 1, start: float = 0.0) -> None:
    for group in groups or PLAN.by_id:
        broker.setting.vault.ring.add(DataKey(group, epoch, start, bytes([epoch]) * 32))


def take_away(broker) -> None:
    for group in PLAN.by_id:
        broker.setting.vault.ring.drop(group)


@pytest.fixture
def pair():
    """Two brokers with the keys of a sealed type, the one not knowing what the other has."""
    made = Pair()
    for broker in (made.home, made.away):
        broker.setting.vault.learn(KIND.id, PLAN)
        broker.setting.vault.asked.add(KIND.id)
        give(broker)
    made.subscribe()
    return made


def speeds(pair) -> list[object]:
    return [values.get("speed") for _, values in pair.seen()]


def test_what_was_kept_while_the_keys_went_is_passed_on_when_they_are_back(pair):
    recorder = pair.home.setting.recorder = Slow()
    answers: list[Taken] = []
    for speed in SPEEDS[:2]:
        pair.home.publish(pair.bundle({"speed": speed}), answers.append)
    take_away(pair.home)
    for done in recorder.waiting:
        done("")
    pair.home.try_again()
    assert not pair.stream
    assert not answers, "nobody but this broker has it yet"
    give(pair.home)
    pair.home.try_again()
    assert [each.problem for each in answers] == ["", ""]
    pair.carry()
    assert speeds(pair) == SPEEDS[:2]


def test_what_has_waited_for_longer_than_proofs_count_is_taken_all_the_same(pair):
    recorder = pair.home.setting.recorder = Slow()
    pair.home.publish(pair.bundle({"speed": 1.0}, {"speed": 2.0}), lambda taken: None)
    take_away(pair.home)
    recorder.waiting[0]("")
    pair.now += 2 * WINDOW
    give(pair.home)
    pair.home.try_again()
    pair.carry()
    assert speeds(pair) == [1.0, 2.0]


def test_what_waits_for_keys_to_be_sealed_with_is_given_up_at_last_and_counted(pair):
    recorder = pair.home.setting.recorder = Slow()
    answers: list[Taken] = []
    pair.home.publish(pair.bundle({"speed": 1.0}), answers.append)
    take_away(pair.home)
    recorder.waiting[0]("")
    pair.now += sending.PATIENCE + 1
    pair.home.try_again()
    give(pair.home)
    pair.home.try_again()
    assert not pair.stream
    assert [(each.problem, each.unkept) for each in answers] == [(sending.KEYLESS, True)]
    assert pair.home.counts.overflowed == 1


def test_what_is_sealed_under_a_key_that_has_not_come_waits_for_it_and_nothing_overtakes(pair):
    pair.publish(pair.bundle({"speed": SPEEDS[0]}))
    give(pair.home, epoch=2, start=pair.now)
    pair.now += 1
    pair.publish(pair.bundle({"speed": SPEEDS[1]}))
    pair.carry()
    assert speeds(pair) == SPEEDS[:1]
    assert pair.away.receiving.take_awaited() == {KIND.id}
    assert pair.away.receiving.waiting() == 2, "it is not acknowledged"
    give(pair.away, epoch=2, start=pair.now - 1)
    pair.publish(pair.bundle({"speed": SPEEDS[2]}))
    pair.carry()
    assert speeds(pair) == SPEEDS[:1]
    pair.away.try_again()
    assert speeds(pair) == SPEEDS
    assert pair.away.receiving.waiting() is None


def test_what_keys_never_come_for_is_not_delivered_empty(pair):
    take_away(pair.away)
    pair.publish(pair.bundle({"speed": 1.0}))
    pair.carry()
    pair.now += awaiting_keys.PATIENCE + 1
    pair.away.try_again()
    give(pair.away)
    pair.away.try_again()
    assert not pair.seen()
    assert pair.away.counts.unreadable == 1
    assert [each.reason for each in pair.missed()] == [GapReason.KEYS]


def test_a_broker_that_is_given_no_keys_delivers_nothing_empty_and_waits_for_nothing(pair):
    take_away(pair.away)
    pair.away.setting.vault.refusals[KIND.id] = "its capability was revoked"
    pair.publish(pair.bundle({"speed": 1.0}))
    pair.carry()
    assert pair.away.counts.unreadable == 1
    give(pair.away)
    pair.away.try_again()
    assert not pair.seen()


@pytest.mark.parametrize(("bound", "most"), [("MAX_LATE", 1), ("MAX_LATE_BYTES", 1500)])
def test_no_more_waits_for_keys_than_there_is_room_for(pair, monkeypatch, bound, most):
    """1,500 bytes are room for one parcel, as it was signed."""
    monkeypatch.setattr(awaiting_keys, bound, most)
    take_away(pair.away)
    for speed in SPEEDS:
        pair.publish(pair.bundle({"speed": speed}))
    pair.carry()
    assert pair.away.counts.overflowed == 2
    give(pair.away)
    pair.away.try_again()
    assert speeds(pair) == SPEEDS[:1]


def test_nothing_waits_that_comes_from_a_broker_not_trusted_with_it(pair):
    take_away(pair.away)
    home, web = pair.home.setting.identity.public, pair.away.presence._web
    web.learn(withdraw(home, [ALL], pair.now, PITO))
    pair.publish(pair.bundle({"speed": 1.0}))
    pair.carry()
    assert pair.away.counts.untrusted == 1
    web.learn(vouch(home, [ALL], pair.now + 1000, PITO, pair.now + 1))
    give(pair.away)
    pair.away.try_again()
    assert not pair.seen()
