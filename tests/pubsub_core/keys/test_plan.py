"""A plan puts each attribute under one key, and padding hides how long its value is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.errors import InvalidType
from pubsub_core.keys import Group, InvalidPlan, Plan
from pubsub_core.keys.padding import pad, unpad

A, B, C = (letter * 32 for letter in "abc")


def test_the_id_of_a_shared_group_follows_from_its_attributes():
    one, other = Plan.shared([[A, B], [C]]), Plan.shared([[C], [B, A]])
    assert one == other
    assert one.group_of[A] is one.group_of[B]
    assert one.group_of[C].id == C
    assert Plan.shared([[A, C]]).group_of[A].id != one.group_of[A].id


def test_whole_events_of_other_attributes_have_another_key():
    """Else a value could be read as that of another attribute by whoever knows another version."""
    assert Plan.whole(A, [B]).groups[0].id != Plan.whole(A, [B, C]).groups[0].id
    assert Plan.whole(A, [B, C]) == Plan.whole(A, [C, B])


@pytest.mark.parametrize(
    "groups",
    [
        (Group(A, (A,)), Group(B, (A,))),
        (Group(A, (A,)), Group(A, (B,))),
    ],
)
def test_an_attribute_in_two_groups_and_an_id_used_twice_are_refused(groups):
    with pytest.raises(InvalidPlan):
        Plan(groups)


def test_a_group_must_be_in_order_and_have_ids():
    for attributes in ((B, A), (A, A), ()):
        with pytest.raises(InvalidPlan):
            Group(A, attributes)
    with pytest.raises(InvalidType):
        Group(A, ("location",))


def test_size_classes_must_grow():
    with pytest.raises(InvalidPlan):
        Plan.each([A], sizes=(64, 32))


def test_size_classes_are_no_larger_than_events_may_be():
    with pytest.raises(InvalidPlan, match="at most 65536 bytes"):
        Plan.each([A], sizes=(64, 600_000))


@pytest.mark.parametrize("pace", [0.001, -1.0, float("nan"), 11.0])
def test_a_pace_is_one_that_can_be_kept(pace):
    with pytest.raises(InvalidPlan):
        Plan(Plan.each([A]).groups, pace=pace)


@given(
    st.binary(max_size=300), st.sets(st.integers(1, 200), min_size=1).map(lambda sizes: tuple(sorted(sizes)))
)
def test_padding_comes_off_again_and_leaves_only_size_classes(data, classes):
    padded = pad(data, classes)
    assert unpad(padded) == data
    assert len(padded) in classes or (len(padded) > classes[-1] and len(padded) % classes[-1] == 0)
