"""Fluents hold from what initiates them until what terminates them, whatever order the events come in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.rules.fluents import Fluent, Fluents, Interval

NURSE, OTHER = Fluent("underInvestigation", ("nurse_8821",)), Fluent("underInvestigation", ("nurse_1",))
moments = st.integers(0, 20).map(float)
changes = st.lists(st.tuples(st.sampled_from([NURSE, OTHER]), moments, st.booleans()), max_size=12)


def heard(events: list[tuple[Fluent, float, bool]]) -> Fluents:
    fluents = Fluents()
    for fluent, at, begins in events:
        (fluents.initiate if begins else fluents.terminate)(fluent, at)
    return fluents


def test_a_fluent_holds_from_its_beginning_until_just_before_its_end():
    fluents = heard([(NURSE, 5.0, True), (NURSE, 9.0, False)])
    assert [fluents.holds_at(NURSE, at) for at in (4.9, 5.0, 8.9, 9.0)] == [False, True, True, False]
    assert fluents.during(NURSE) == (Interval(5.0, 9.0),)
    assert 5.0 in fluents.during(NURSE)[0]
    assert 9.0 not in fluents.during(NURSE)[0]


def test_one_that_has_not_ended_goes_on():
    fluents = heard([(NURSE, 5.0, True)])
    assert fluents.holds_at(NURSE, 1e12)
    assert fluents.during(NURSE) == (Interval(5.0),)
    assert fluents.not_during(NURSE) == (Interval(float("-inf"), 5.0),)


def test_what_holds_of_one_does_not_hold_of_another():
    fluents = heard([(NURSE, 5.0, True)])
    assert not fluents.holds_at(OTHER, 6.0)
    assert list(fluents.holding("underInvestigation", 6.0)) == [("nurse_8821",)]
    assert list(fluents.holding("critical", 6.0)) == []


def test_what_ends_at_the_moment_it_begins_never_held():
    for events in ([(NURSE, 5.0, True), (NURSE, 5.0, False)], [(NURSE, 5.0, False), (NURSE, 5.0, True)]):
        assert not heard(events).holds_at(NURSE, 5.0)
        assert not heard(events).holds_at(NURSE, 6.0)


def test_of_what_was_forgotten_nothing_is_claimed_either_way():
    fluents = heard([(NURSE, 5.0, True), (NURSE, 9.0, False), (NURSE, 12.0, True)])
    fluents.forget(10.0)
    assert len(fluents) == 1
    assert not fluents.holds_at(NURSE, 6.0)
    assert fluents.not_during(NURSE) == (Interval(10.0, 12.0),)
    fluents.initiate(OTHER, 3.0)
    assert not fluents.holds_at(OTHER, 11.0)


@given(changes, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(events, chance):
    shuffled = events.copy()
    chance.shuffle(shuffled)
    assert heard(events).during(NURSE) == heard(shuffled).during(NURSE)


@given(changes, moments)
def test_intervals_say_the_same_as_single_moments(events, at):
    fluents = heard(events)
    assert fluents.holds_at(NURSE, at) == any(at in each for each in fluents.during(NURSE))
    assert fluents.holds_at(NURSE, at) != any(at in each for each in fluents.not_during(NURSE))
    assert fluents.holds_at(NURSE, at) == (NURSE.arguments in fluents.holding(NURSE.name, at))


@given(changes, moments, moments)
def test_forgetting_the_past_changes_nothing_about_what_comes_after(events, before, at):
    whole, short = heard(events), heard(events)
    short.forget(before)
    assert short.holds_at(NURSE, at) == (at >= before and whole.holds_at(NURSE, at))
    late = max(before, at)
    for fluents in (whole, short):
        fluents.terminate(NURSE, late)
    assert short.holds_at(NURSE, 21.0) == whole.holds_at(NURSE, 21.0)
