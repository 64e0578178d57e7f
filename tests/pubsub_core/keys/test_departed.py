"""Whoever has left a key group, or was evicted, has nothing taken from it under the keys that it had."""

from __future__ import annotations

import pytest

from authz import PublicKey
from authz.predicate import TRUE, Equal, Path
from pubsub_core.events.event import Event
from pubsub_core.events.event_cipher import EventCipher
from pubsub_core.key_groups.key_group import GroupRecord, KeyGroup, MemberRecord, Rules
from pubsub_core.key_groups.rotation_schedule import Tenure
from pubsub_core.keys import CannotOpen, DataKey, KeyRing, Plan
from pubsub_core.keys.ring import mark
from tests.pubsub_core.kinds import MET, PITO
from tests.pubsub_core.pair import KIND, Pair

GROUP = "a" * 32
RULES = Rules(period=100.0, delay=20.0, lead=0.0)
PLAN = Plan.each(each.id for each in KIND.attributes).of(KIND.id)
SPEED = next(each.id for each in KIND.attributes if each.name == "speed")
EVICTED, OTHER = str(PITO.public), str(MET.public)
BEGAN = 1000.0


def vault(*epochs: tuple[int, float]) -> EventCipher:
    made = EventCipher(KeyRing())
    made.learn(KIND.id, PLAN)
    give(made, *epochs)
    return made


def give(made: EventCipher, *epochs: tuple[int, float]) -> None:
    for group in PLAN.by_id:
        for epoch, start in epochs:
            made.ring.add(DataKey(group, epoch, start, bytes([epoch]) * 32))


def evict(made: EventCipher, broker: str) -> None:
    for group in PLAN.by_id:
        made.ring.part(group, {mark(broker): 2})


def test_a_broker_that_was_evicted_cannot_backdate_events():
    pair = Pair()
    for broker in (pair.home, pair.away):
        broker.setting.vault.learn(KIND.id, PLAN)
        give(broker.setting.vault, (1, 0.0))
    pair.subscribe()
    pair.publish(pair.bundle({"speed": 1.0}))
    pair.carry()
    assert len(pair.seen()) == 1
    give(pair.away.setting.vault, (2, pair.now + 1))
    evict(pair.away.setting.vault, str(pair.home.setting.identity.public))
    pair.publish(pair.bundle({"speed": 2.0}))
    pair.carry()
    assert len(pair.seen()) == 1
    assert pair.away.counts.forged == 1


@pytest.mark.parametrize("at", [BEGAN - 1, BEGAN + 1], ids=["under the key it had", "under the one after it"])
def test_what_others_seal_is_opened_and_what_it_seals_once_it_is_back(at):
    sender, receiver = vault((1, 0.0), (2, BEGAN)), vault((1, 0.0), (2, BEGAN))
    evict(receiver, EVICTED)
    event = Event(KIND.id, KIND.version, b"p" * 32, at, 1, {SPEED: 1.0})
    columns, one = sender.seal_many([event]), sender.seal(event)
    boxes = {
        each: sender.seal_box(KIND.id, at, PublicKey.parse(each).raw, [b"b"]) for each in (OTHER, EVICTED)
    }
    for key in (OTHER, *((EVICTED,) if at > BEGAN else ())):
        assert receiver.open_many(columns, key) == [event]
        assert receiver.open(one, key) == event
        assert receiver.open_box(KIND.id, boxes[key], key) == [b"b"]
    if at < BEGAN:
        for work in (
            lambda: receiver.open_many(columns, EVICTED),
            lambda: receiver.open(one, EVICTED),
            lambda: receiver.open_box(KIND.id, boxes[EVICTED], EVICTED),
        ):
            with pytest.raises(CannotOpen):
                work()


def test_its_filters_are_not_read_under_the_keys_it_had():
    sender, receiver = vault((1, 0.0)), vault((1, 0.0), (2, BEGAN))
    wanted = Equal(Path("event", (SPEED,)), 1.0)
    sealed = {key: sender.seal_filters(KIND.id, [wanted], key.public.raw, BEGAN - 1) for key in (PITO, MET)}
    evict(receiver, EVICTED)
    assert receiver.open_filters(KIND.id, sealed[MET], MET.public.raw) == (wanted,)
    (read,) = receiver.open_filters(KIND.id, sealed[PITO], PITO.public.raw)
    assert read == TRUE


def group_of(*names: str) -> KeyGroup:
    group = KeyGroup(GroupRecord(GROUP), RULES)
    for name in names:
        group.admit(name, MemberRecord(name.encode().ljust(32, b"k"), Tenure(0.0), 0, 1000.0), 1000.0)
    return group


def test_members_are_told_who_has_left_for_as_long_as_its_keys_are_kept():
    group = group_of("stays", "evicted", "placed")
    group.tick(1100.0)
    group.evict("evicted", 1150.0)
    assert group.tick(1150.0)
    gone = {mark("evicted"): group.epoch}
    assert group.change is not None
    assert group.change.departed == group.welcome("stays").departed == gone
    restored = KeyGroup(group.record(), RULES)
    assert restored.welcome("stays").departed == gone
    restored.tick(1150.25 + RULES.delay)
    assert restored.welcome("stays").departed == {}


def test_one_that_was_never_placed_in_the_tree_is_named_too():
    group = group_of("first", "waiting")
    assert "waiting" not in group._tree
    group.evict("waiting", 1010.0)
    assert group.tick(1010.0)
    assert group.departed == {mark("waiting"): group.epoch}


def test_a_ring_forgets_who_has_left_with_the_keys_it_had():
    ring = KeyRing()
    for epoch, start in ((1, 0.0), (2, BEGAN)):
        ring.add(DataKey(GROUP, epoch, start, bytes([epoch]) * 32))
    ring.part(GROUP, {mark(EVICTED): 2})
    assert ring.has_left(EVICTED, [(GROUP, 1)])
    assert not ring.has_left(EVICTED, [(GROUP, 2)])
    assert not ring.has_left(OTHER, [(GROUP, 1)])
    ring.expire(BEGAN + 20.0, 20.0)
    keys = ring.of(GROUP)
    assert keys is not None
    assert not keys.departed
