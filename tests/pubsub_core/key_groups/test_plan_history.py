"""Which plan is in force: the last one, and none that it has replaced, unless that is meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.key_groups.key_group import Rules
from pubsub_core.key_groups.plan_history import RETIREMENT, Ways
from pubsub_core.keys.errors import PlanReplaced
from pubsub_core.keys.plan import Plan

PLANS = [Plan.each([f"{number:032x}"]) for number in range(4)]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 10), st.booleans()), max_size=12))
def test_what_was_replaced_does_not_come_back_by_itself(starts):
    now, replaced = Ways(PLANS[0], Rules(), 1.0), set[int]()
    present = 0
    for number, at, back in starts:
        wanted, before = Ways(PLANS[number], Rules(), at), now
        if number in replaced and not back:
            with pytest.raises(PlanReplaced):
                wanted.follow(now, "t")
            continue
        now = wanted.follow(now, "t", back)
        assert now.plan == PLANS[number]
        if number == present:
            assert now == before
        else:
            assert now.since > before.since, "whatever the clocks say"
            replaced = (replaced | {present}) - {number}
            present = number


def test_other_rules_are_another_way():
    first = Ways(PLANS[0], Rules(), 1.0)
    second = Ways(PLANS[0], Rules(period=5.0), 2.0).follow(first, "t")
    with pytest.raises(PlanReplaced, match="in force since 1970-01-01 00:00:02"):
        Ways(PLANS[0], Rules(), 3.0).follow(second, "t")


def test_groups_of_a_plan_that_was_replaced_are_managed_a_little_longer():
    first = Ways(PLANS[0], Rules(), 1.0)
    second = Ways(PLANS[1], Rules(), 2.0).follow(first, "t")
    (old,), (new,) = PLANS[0].by_id, PLANS[1].by_id
    assert second.groups(2.0 + RETIREMENT - 1.0).keys() == {old, new}
    assert second.groups(2.0 + RETIREMENT).keys() == {new}
    third = Ways(PLANS[0], Rules(), 3.0).follow(second, "t", back=True)
    assert third.groups(3.0 + RETIREMENT - 1.0).keys() == {old, new}
    assert third.groups(3.0 + RETIREMENT).keys() == {old}
    late = Ways(PLANS[2], Rules(), 3.0 + RETIREMENT).follow(third, "t")
    assert late.groups(late.since).keys() == {old, *PLANS[2].by_id}
