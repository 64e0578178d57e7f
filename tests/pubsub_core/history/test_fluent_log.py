"""Marks of fluents are forgotten when nothing that can still be asked depends on them."""

from __future__ import annotations

from math import inf

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.history.fluent_log import needed_since, superfluous
from pubsub_core.history.retention import Keeping
from pubsub_core.rules.fluents import KEPT_SECONDS, Fluent, Fluents
from pubsub_core.rules.observer import Mark

marks = st.lists(
    st.builds(
        Mark, st.just("f"), st.sampled_from([("a",), ("b",)]), st.integers(0, 9).map(float), st.booleans()
    )
)


def known(stored: list[Mark]) -> Fluents:
    fluents = Fluents()
    for each in stored:
        (fluents.initiate if each.begins else fluents.terminate)(Fluent(*each[:2]), each.at)
    return fluents


@given(marks, st.integers(0, 10).map(float))
def test_what_is_left_says_the_same_of_every_later_time_and_nothing_twice(stored, before):
    rows = [(number, msgspec.msgpack.encode(each)) for number, each in enumerate(stored)]
    gone = superfluous(rows, before)
    left = [each for number, each in enumerate(stored) if number not in gone]
    for thing in ("a", "b"):
        for at in (before, before + 0.5, *(at for at in range(11) if at >= before)):
            fluent = Fluent("f", (thing,))
            assert known(left).holds_at(fluent, at) == known(stored).holds_at(fluent, at)
    assert len(left) == len(set(left))
    early = [each for each in left if each.at < before]
    assert len({each[:2] for each in early}) == len(early)
    assert all(each.begins for each in early)


def test_marks_are_needed_as_far_back_as_events_are_kept():
    month = Keeping("t", seconds=30 * 86_400.0)
    assert needed_since([], 0.0) == -KEPT_SECONDS
    assert needed_since([Keeping("u", seconds=1.0)], 0.0) == -KEPT_SECONDS
    assert needed_since([Keeping("u", seconds=1.0), month], 0.0) == -30 * 86_400.0
    assert needed_since([month, Keeping("v")], 0.0) == -inf
