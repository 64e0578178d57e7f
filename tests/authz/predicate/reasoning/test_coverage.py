"""A covering set lets through whatever any of its members would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.predicate import EVENT, TRUE, And, Equal, In, Or, Order, Path, compile_predicate
from authz.predicate.reasoning.coverage import MAX_FILTERS, covering
from tests.pubsub_core.filters import NUMBER, TEXT, events, filters


@settings(max_examples=100)
@given(members=st.lists(filters, max_size=6), event=events)
def test_what_a_member_lets_through_the_covering_set_lets_through(members, event):
    if compile_predicate(Or(tuple(members)), EVENT)(event):
        assert compile_predicate(Or(covering(members)), EVENT)(event)


def test_a_filter_that_another_covers_is_left_out():
    wide, narrow = Order(NUMBER, ">", 5), And((Order(NUMBER, ">", 10), Equal(TEXT, "a")))
    assert covering([narrow, wide, narrow]) == (wide,)
    assert covering([narrow, wide, TRUE]) == (TRUE,)


def test_tests_for_constants_of_one_attribute_become_one():
    found = covering([Equal(TEXT, "a"), Equal(TEXT, "b"), In(TEXT, ("b", "c")), Equal(NUMBER, 1)])
    assert found == (In(NUMBER, (1,)), In(TEXT, ("a", "b", "c")))


def test_nobody_wants_nothing_and_too_many_filters_want_everything():
    assert covering([]) == ()
    many = [Order(Path("event", (f"x{n}",)), ">", n) for n in range(MAX_FILTERS + 1)]
    assert covering(many[:-1]) == tuple(sorted(many[:-1], key=str))
    assert covering(many) == (TRUE,)
