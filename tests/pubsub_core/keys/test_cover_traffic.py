"""Boxes at a steady pace: an empty one looks like any other, and only whoever holds a group's key can open one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.events.event_cipher import EventCipher
from pubsub_core.keys import CannotOpen, DataKey, KeyRing, Plan
from pubsub_core.keys.cover_traffic import SIZES
from tests.pubsub_core.kinds import MET, PITO
from tests.pubsub_core.pair import KIND

PLAN = Plan.each(each.id for each in KIND.attributes).of(KIND.id)
SENDER = MET.public
messages = st.lists(st.binary(max_size=400), max_size=6)


def vault(*groups: str) -> EventCipher:
    made = EventCipher(KeyRing())
    made.learn(KIND.id, PLAN)
    for group in groups or PLAN.by_id:
        made.ring.add(DataKey(group, 1, 0.0, group.encode()[:32]))
    return made


def seal(content: list[bytes]) -> bytes:
    return vault().seal_box(KIND.id, 1000.0, SENDER.raw, content)


@given(messages)
def test_what_is_in_a_box_comes_out_again_for_whoever_holds_the_key_of_any_group(content):
    box = seal(content)
    for group in PLAN.by_id:
        assert vault(group).open_box(KIND.id, box, str(SENDER)) == content


@given(messages)
def test_a_box_with_little_in_it_is_as_large_as_an_empty_one(content):
    assert len(seal(content)) == len(seal([]))
    assert len(seal([bytes(SIZES[0])])) > len(seal([]))


def test_an_empty_box_is_never_twice_the_same():
    assert seal([]) != seal([])


def test_a_box_opens_only_with_its_keys_and_from_its_sender():
    with pytest.raises(CannotOpen):
        vault("f" * 32).open_box(KIND.id, seal([b"x"]), str(SENDER))
    with pytest.raises(CannotOpen):
        vault().open_box(KIND.id, seal([b"x"]), str(PITO.public))


@given(st.binary(max_size=80))
def test_what_is_no_box_cannot_be_opened(data):
    with pytest.raises(CannotOpen):
        vault().open_box(KIND.id, data, str(SENDER))
