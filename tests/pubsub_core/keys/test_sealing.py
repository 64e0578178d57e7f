"""What is sealed opens for whoever holds the key, for the event it belongs to, and for nothing else."""

import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.keys import (
    Binding,
    CannotOpen,
    DataKey,
    KeyMissing,
    KeyRing,
    Opener,
    Plan,
    Sealed,
    Sealer,
)
from pubsub_core.keys.nonces import LIMIT
from pubsub_core.keys.opening import open_one

NAMES = [f"{n:032x}" for n in range(1, 5)]
PLANS = {
    "whole": Plan.whole("f" * 32, NAMES),
    "each": Plan.each(NAMES),
    "shared": Plan.shared([NAMES[:2], NAMES[2:3]]),
    "padded": Plan.each(NAMES, sizes=(32, 64)),
}
BINDING = Binding("a" * 32, "b" * 32, b"p" * 32, 1000.0, 7)
VALUES = st.dictionaries(
    st.sampled_from(NAMES),
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.lists(st.text(), max_size=3),
)


def ring_for(plan: Plan, epochs=((1, 0.0),), skew: float = 5.0) -> KeyRing:
    ring = KeyRing(skew)
    for group in plan.groups:
        for epoch, start in epochs:
            ring.add(DataKey(group.id, epoch, start, bytes.fromhex(group.id) + epoch.to_bytes(16, "big")))
    return ring


@given(st.sampled_from(sorted(PLANS)), VALUES)
def test_what_is_sealed_opens(name, values):
    plan = PLANS[name]
    ring = ring_for(plan)
    sealed = Sealer(plan, ring).seal(BINDING, values)
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(sealed), type=Sealed)
    clear = {each: values[each] for each in plan.clear(values)}
    opened = Opener(plan, ring_for(plan)).open(BINDING, travelled, clear)
    expected = {each: value for each, value in values.items() if value is not None}
    assert {each: opened.get(each) for each in expected} == expected
    assert {each: value for each, value in opened.all().items() if value is not None} == expected
    assert opened.broken == 0


@pytest.mark.parametrize(
    "change",
    [
        {"type": "c" * 32},
        {"version": "c" * 32},
        {"publisher": b"q" * 32},
        {"time": 1000.5},
        {"sequence": 8},
        {"purpose": "filter"},
    ],
)
def test_it_opens_for_no_other_event(change):
    plan = PLANS["each"]
    ring = ring_for(plan)
    sealed = Sealer(plan, ring).seal(BINDING, {NAMES[0]: "secret"})
    opened = Opener(plan, ring).open(msgspec.structs.replace(BINDING, **change), sealed)
    assert opened.all() == {}
    assert opened.broken == len(plan.groups)


def relabelled(sealed: Sealed, group: str, epoch: int) -> Sealed:
    return msgspec.structs.replace(sealed, layout=bytes.fromhex(group) + epoch.to_bytes(8, "big"))


def test_a_part_does_not_pass_for_that_of_another_attribute_or_epoch():
    plan = Plan.each(NAMES)
    ring = KeyRing()
    for group in plan.groups:  # the same secret throughout: only the labels differ
        for epoch in (1, 2):
            ring.add(DataKey(group.id, epoch, 999.0, b"k" * 32))
    sealed = Sealer(plan, ring).seal_for(NAMES[0], BINDING, ("secret",))
    assert open_one(ring, BINDING, relabelled(sealed, NAMES[0], 2)) == ("secret",)
    for group, epoch in ((NAMES[1], 2), (NAMES[0], 1)):
        with pytest.raises(CannotOpen):
            open_one(ring, BINDING, relabelled(sealed, group, epoch))
    event = Sealer(plan, ring).seal(BINDING, {NAMES[0]: "secret", NAMES[1]: "other"})
    swapped = msgspec.structs.replace(event, parts=(event.parts[1], event.parts[0], *event.parts[2:]))
    assert Opener(plan, ring).open(BINDING, swapped).all() == {}


KINDS = {
    "salt": st.binary(max_size=20),
    "number": st.integers(-3, 2**40),
    "layout": st.binary(max_size=60),
    "parts": st.lists(st.binary(max_size=60), max_size=2).map(tuple),
}


@given(st.data())
def test_any_change_of_what_travels_fails_and_all_failures_read_alike(data):
    plan = PLANS["whole"]
    ring = ring_for(plan)
    sealed = Sealer(plan, ring).seal(BINDING, {NAMES[0]: "secret"})
    field = data.draw(st.sampled_from(sorted(KINDS)))
    other = data.draw(KINDS[field])
    if other == getattr(sealed, field):
        return
    changed = msgspec.structs.replace(sealed, **{field: other})
    with pytest.raises(CannotOpen) as failure:
        open_one(ring, BINDING, changed)
    assert str(failure.value) == "what is sealed cannot be opened"
    assert failure.value.__cause__ is None
    try:
        assert Opener(plan, ring).open(BINDING, changed).all() == {}
    except CannotOpen:
        return


def test_no_cipher_meets_a_nonce_twice_across_restarts_brokers_epochs_and_groups(monkeypatch):
    plan = PLANS["each"]
    used = []
    real = DataKey.cipher

    def watched(key, salt):
        cipher = real(key, salt)

        class Watched:
            def encrypt(self, nonce, data, bound):
                used.append((key.label, salt, nonce))
                return cipher.encrypt(nonce, data, bound)

        return Watched()

    monkeypatch.setattr(DataKey, "cipher", watched)
    for _broker in range(3):
        for _restart in range(3):
            ring = ring_for(plan, ((1, 0.0), (2, 1000.0)))
            sealer = Sealer(plan, ring)
            for time in (999.0, 1000.0, 999.0, 1001.0):  # a clock that goes back, too
                sealer.seal(msgspec.structs.replace(BINDING, time=time), {})
    assert len(set(used)) == len(used) == 3 * 3 * 4 * len(plan.groups)


def test_a_number_stays_used_when_sealing_fails():
    plan = PLANS["each"]
    ring = ring_for(Plan.each(NAMES[:1]))
    sealer = Sealer(plan, ring)
    first = sealer.seal(BINDING, {}).number
    with pytest.raises(KeyMissing):
        sealer.seal(BINDING, {NAMES[0]: 1, NAMES[3]: 2})
    assert sealer.seal(BINDING, {}).number == first + 2


def test_a_sealer_takes_another_salt_before_its_numbers_run_out():
    sealer = Sealer(PLANS["whole"], ring_for(PLANS["whole"]))
    sealer._numbers._next = LIMIT - 1
    last, after = sealer.seal(BINDING, {}), sealer.seal(BINDING, {})
    assert (last.number, after.number) == (LIMIT - 1, 0)
    assert last.salt != after.salt


def test_a_forked_child_takes_another_salt():
    sealer = Sealer(PLANS["whole"], ring_for(PLANS["whole"]))
    before = sealer.seal(BINDING, {}).salt
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writable, sealer.seal(BINDING, {}).salt)
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(readable, 16) != before
    assert sealer.seal(BINDING, {}).salt == before


def test_a_value_without_its_key_is_refused_and_a_missing_one_is_not():
    plan = PLANS["each"]
    sealer = Sealer(plan, ring_for(Plan.each(NAMES[:2])))
    assert len(sealer.seal(BINDING, {NAMES[0]: 1}).parts) == 2
    with pytest.raises(KeyMissing) as refusal:
        sealer.seal(BINDING, {NAMES[3]: "unseen"})
    assert refusal.value.group == NAMES[3]


def test_which_values_are_missing_does_not_show():
    plan = PLANS["padded"]
    sealer = Sealer(plan, ring_for(plan))

    def shape(values):
        return _shape(sealer.seal(BINDING, values))

    assert shape({}) == shape({NAMES[0]: "AE05 XYZ", NAMES[2]: 17})


def test_nothing_in_clear_takes_the_place_of_what_must_be_sealed():
    plan = PLANS["shared"]
    ring = ring_for(plan)
    sealed = Sealer(plan, ring).seal(BINDING, {NAMES[0]: "true"})
    opened = Opener(plan, ring).open(
        BINDING, sealed, {NAMES[0]: "false", NAMES[1]: "false", NAMES[3]: "clear"}
    )
    assert opened.all() == {NAMES[0]: "true", NAMES[3]: "clear"}
    without = Opener(plan, KeyRing()).open(BINDING, sealed, {NAMES[0]: "false", NAMES[3]: "clear"})
    assert without.all() == {NAMES[3]: "clear"}


def test_a_group_is_opened_only_when_it_is_asked_for():
    plan = PLANS["each"]
    ring = ring_for(plan)
    sealed = Sealer(plan, ring).seal(BINDING, {NAMES[0]: 1})
    damaged = msgspec.structs.replace(sealed, parts=(*sealed.parts[:3], b"x" * 20))
    opened = Opener(plan, ring).open(BINDING, damaged)
    assert (opened.get(NAMES[0]), opened.broken) == (1, 0)
    assert (opened.get(NAMES[3]), opened.broken) == (None, 1)


def test_strangers_do_not_fill_the_table_of_ciphers():
    plan = PLANS["whole"]
    ring = ring_for(plan)
    sealed, opener = Sealer(plan, ring).seal(BINDING, {NAMES[0]: 1}), Opener(plan, ring)
    for n in range(20):
        stranger = msgspec.structs.replace(sealed, salt=n.to_bytes(16, "big"))
        assert opener.open(BINDING, stranger).all() == {}
    assert not opener._ready
    assert opener.open(BINDING, sealed).all() == {NAMES[0]: 1}
    assert list(opener._ready) == [(sealed.salt, sealed.layout)]


@pytest.mark.parametrize("name", sorted(PLANS))
def test_what_was_kept_ready_does_not_outlive_its_key(name):
    plan = PLANS[name]
    ring = ring_for(plan, ((1, 0.0), (2, 1000.0)))
    opener = Opener(plan, ring)
    old = msgspec.structs.replace(BINDING, time=999.0)
    sealed = Sealer(plan, ring).seal(old, {NAMES[0]: 1})
    assert opener.open(old, sealed).get(NAMES[0]) == 1
    late = msgspec.structs.replace(BINDING, time=1005.0)
    assert opener.open(late, sealed).get(NAMES[0]) is None
    ring.expire(now=2000.0, delay=0.0)
    assert opener.open(old, sealed).all() == {}


def test_a_key_in_use_is_followed_by_the_next_when_it_begins():
    plan = PLANS["whole"]
    ring = ring_for(plan, ((1, 0.0), (2, 1000.0)))
    sealer = Sealer(plan, ring)

    def epoch_at(time):
        return sealer.seal(msgspec.structs.replace(BINDING, time=time), {}).keys[0][1]

    assert [epoch_at(time) for time in (999.9, 1000.0, 999.9)] == [1, 2, 1]
    ring.add(DataKey(plan.groups[0].id, 3, 1002.0, b"3" * 32))
    assert [epoch_at(time) for time in (1001.0, 1002.0)] == [2, 3]


def _shape(sealed: Sealed) -> tuple[object, ...]:
    """What can be seen of something sealed without a key."""
    return sealed.layout, tuple(map(len, sealed.parts))
