"""At a steady pace, an event or a dummy goes out in each interval."""

from hypothesis import given
from hypothesis import strategies as st

from pubsub_core.keys.pace import Pace


def test_a_dummy_is_due_only_where_nothing_was_said():
    pace = Pace(1.0, 100.0)
    assert pace.due(100.9) == 0
    assert pace.due(101.0) == 1
    pace.sent()
    assert pace.due(102.0) == 0
    assert pace.due(103.0) == 1


def test_intervals_slept_through_are_not_made_up_for():
    pace = Pace(1.0, 100.0)
    assert pace.due(150.5) == 1
    assert pace.due(150.9) == 0
    assert pace.due(151.0) == 1


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_whoever_watches_sees_one_in_each_interval(busy):
    pace, seen = Pace(1.0, 0.0), []
    for second, event in enumerate(busy, start=1):
        if event:
            pace.sent()
        seen.append(event + pace.due(float(second)))
    assert seen == [1] * len(busy)
