"""What a broker seals for others opens for each as far as its keys go, many events at once or one by one."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.predicate import TRUE, Equal, Path
from pubsub_core.events.column_cipher import Columns, decode
from pubsub_core.events.event import Event
from pubsub_core.events.event_cipher import EventCipher
from pubsub_core.keys import CannotOpen, DataKey, KeyMissing, KeyRing, Plan
from pubsub_core.keys.errors import KeyAwaited

TYPE, VERSION = "a" * 32, "b" * 32
A, B, C, CLEAR = (f"{n:032x}" for n in range(1, 5))
PLANS = {
    "each": Plan.each([A, B, C]),
    "shared": Plan.shared([[A, B], [C]]),
    "whole": Plan.whole(TYPE, [A, B, C]),
    "padded": Plan.each([A, B, C], sizes=(64,)),
}
VALUES = st.dictionaries(
    st.sampled_from([A, B, C, CLEAR]), st.text(max_size=5) | st.integers(0, 9) | st.booleans()
)
ROWS = st.lists(VALUES, min_size=1, max_size=5)


def vault(plan: Plan, *groups: str, epochs=((1, 0.0),)) -> EventCipher:
    made = EventCipher(KeyRing())
    for group in groups or [each.id for each in plan.groups]:
        for epoch, start in epochs:
            made.ring.add(DataKey(group, epoch, start, bytes.fromhex(group) + bytes([epoch]) * 16))
    made.learn(TYPE, plan)
    return made


def event(values: dict[str, object], number: int = 0, time: float = 1000.0) -> Event:
    return Event(TYPE, VERSION, b"p" * 32, time, number, values)


@given(st.sampled_from(sorted(PLANS)), ROWS)
def test_many_events_open_as_they_were(name, rows):
    events = [event(row, number) for number, row in enumerate(rows)]
    data = vault(PLANS[name]).seal_many(events)
    assert vault(PLANS[name]).open_many(data) == events


@given(st.sampled_from(sorted(PLANS)), ROWS, st.data())
def test_whoever_holds_fewer_keys_reads_less_and_the_same_in_both_forms(name, rows, data):
    plan = PLANS[name]
    held = data.draw(st.sets(st.sampled_from([group.id for group in plan.groups])))
    sender, receiver = vault(plan), vault(plan, *held) if held else vault(plan, "f" * 32)
    events = [event(row, number) for number, row in enumerate(rows)]
    readable = {
        each for each in (A, B, C, CLEAR) if each not in plan.group_of or plan.group_of[each].id in held
    }
    expected = [{name: value for name, value in row.items() if name in readable} for row in rows]
    assert [each.attributes for each in receiver.open_many(sender.seal_many(events))] == expected
    assert [receiver.open(sender.seal(each)).attributes for each in events] == expected


@given(ROWS, st.data())
def test_no_change_of_what_is_sealed_together_makes_it_say_something_else(rows, data):
    """At most a column is lost, or all of it; and that the broker's signature shows."""
    events = [event(row, number) for number, row in enumerate(rows)]
    sealed = bytearray(vault(PLANS["each"]).seal_many(events))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        opened = vault(PLANS["each"]).open_many(bytes(sealed))
    except (CannotOpen, KeyAwaited):
        return
    for before, after in zip(events, opened, strict=True):
        if after.type == TYPE:
            assert after.attributes.items() <= before.attributes.items()
            assert (after.version, after.publisher, after.time) == (
                before.version,
                before.publisher,
                before.time,
            )


def test_a_number_that_is_none_of_an_event_is_not_taken_in_columns_either():
    sealing, opening = vault(PLANS["each"]), vault(PLANS["each"])
    with pytest.raises(CannotOpen):
        opening.open_many(sealing.seal_many([event({A: 1}, 2**63)]))


def test_rows_and_headings_do_not_change_places():
    made = decode(vault(PLANS["each"]).seal_many([event({A: 1}, 1), event({A: 2}, 2)]))
    swapped = msgspec.structs.replace(made, headings=made.headings[::-1])
    shorter = msgspec.structs.replace(made, headings=made.headings[:1], clear=made.clear[:1])
    for changed in (swapped, shorter):
        with pytest.raises(CannotOpen):
            vault(PLANS["each"]).open_many(msgspec.msgpack.encode(changed))


def test_what_must_be_sealed_is_not_taken_in_clear():
    plan = PLANS["each"]
    with pytest.raises(CannotOpen):
        vault(plan).open(event({A: "forged"}))
    without = decode(vault(Plan.each([B, C]), B, C).seal_many([event({A: "forged"})]))
    assert isinstance(without, Columns)
    with pytest.raises(CannotOpen):
        vault(plan).open_many(msgspec.msgpack.encode(without))


def test_events_among_which_a_key_ends_are_sealed_one_by_one():
    sender = vault(PLANS["each"], A, B, C, epochs=((1, 0.0), (2, 1000.0)))
    straddling = [event({A: 1}, 1, 999.0), event({A: 2}, 2, 1001.0)]
    assert sender.seal_many(straddling) is None
    assert sender.seal_many(straddling[::-1]) is None
    assert [sender.open(sender.seal(each)) for each in straddling] == straddling


def test_a_parcel_of_a_time_that_its_key_is_not_for_does_not_open():
    sender = vault(PLANS["each"], A, B, C, epochs=((1, 0.0),))
    receiver = vault(PLANS["each"], A, B, C, epochs=((1, 0.0), (2, 1000.0)))
    assert receiver.open_many(sender.seal_many([event({A: 1}, 1, 1004.0)]))
    with pytest.raises(CannotOpen):
        receiver.open_many(sender.seal_many([event({A: 1}, 1, 1004.0), event({A: 1}, 2, 1006.0)]))


def test_a_value_whose_key_is_not_held_is_not_sealed():
    sender = vault(PLANS["each"], A, B)
    assert sender.lacks(TYPE, {A: 1, C: 2}, 1000.0) == C
    assert sender.lacks(TYPE, {A: 1, C: None}, 1000.0) is None
    assert sender.readable(TYPE, [A, B, C, CLEAR]) == {A, B, CLEAR}
    with pytest.raises(KeyMissing):
        sender.seal_many([event({C: 2})])
    with pytest.raises(KeyMissing):
        sender.seal(event({C: 2}))


@pytest.mark.parametrize("time", [994.0, float("nan"), float("inf")])
def test_an_event_of_a_time_without_a_key_is_not_sealed_and_stops_no_other(time):
    sender = vault(PLANS["each"], A, B, C, epochs=((1, 1000.0),))
    assert sender.lacks(TYPE, {A: 1}, time) == ""
    for sealing in (sender.seal, lambda each: sender.seal_many([each])):
        with contextlib.suppress(KeyMissing):
            sealing(event({A: 1}, time=time))
    assert sender.lacks(TYPE, {A: 1}, 1000.0) is None
    assert sender.open(sender.seal(event({A: 1}))) == event({A: 1})
    assert sender.open_many(sender.seal_many([event({A: 1})])) == [event({A: 1})]


def test_a_type_whose_plan_is_not_known_yet_cannot_be_sealed_or_read():
    waiting = EventCipher(KeyRing(), {TYPE})
    assert waiting.lacks(TYPE, {A: 1}, 1000.0) == A
    assert waiting.readable(TYPE, [A]) == frozenset()
    for sealing in (lambda: waiting.seal(event({A: 1})), lambda: waiting.seal_many([event({A: 1})])):
        with pytest.raises(KeyMissing):
            sealing()
    assert waiting.open_filters(TYPE, (), b"p" * 32) == (TRUE,)


def test_equals_are_those_who_hold_every_key_of_the_plan():
    sender = vault(PLANS["each"])
    assert sender.equal(TYPE, {A, B, C})
    assert not sender.equal(TYPE, {A, B})
    assert not vault(PLANS["each"], A, B).equal(TYPE, {A, B, C})


def test_filters_of_another_broker_than_the_one_that_sends_them_are_not_heeded():
    sender, receiver = vault(PLANS["each"]), vault(PLANS["each"])
    wanted = Equal(Path("event", (A,)), 1)
    sealed = sender.seal_filters(TYPE, [wanted], b"p" * 32, 1000.0)
    assert receiver.open_filters(TYPE, sealed, b"p" * 32) == (wanted,)
    assert receiver.open_filters(TYPE, sealed, b"q" * 32) == ()
