"""What is said of the time left."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from spark_eval.runtime import progress
from spark_eval.runtime.progress import Steps, duration, remaining


@pytest.mark.parametrize(
    ("share", "elapsed", "expected", "left"),
    [
        (0.5, 100.0, 200.0, 100.0),  # as expected
        (0.01, 60.0, 200.0, 255.42),  # a slow start says little
        (0.9, 360.0, 200.0, 39.6),  # it takes twice as long as expected, as it turns out
        (0.5, 30.0, None, 30.0),
        (0.0, 30.0, None, None),
        (1.0, 30.0, 200.0, 0.0),
    ],
)
def test_the_time_left_is_at_first_what_was_expected_and_later_what_was_seen(share, elapsed, expected, left):
    found = remaining(share, elapsed, expected)
    assert found == (None if left is None else pytest.approx(left))


def test_where_there_is_no_terminal_lines_say_how_far_it_is_and_how_long_it_may_take(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    written = StringIO()
    steps = Steps(Console(file=written, width=200))
    steps.expect([100.0, 300.0])
    with steps.step("asking", 4) as advance:
        advance(2)
        advance(2)
    said = written.getvalue().splitlines()
    assert said[0] == "1/2 asking …"
    assert said[1].startswith("1/2 asking: 50 %, 25 s left, about 1 min 4")
    assert said[2].startswith("1/2 asking: 100 %, 0 s left, about")


def test_times_are_told_in_the_two_units_that_matter():
    assert [duration(seconds) for seconds in (59.4, 125, 3_725)] == ["59 s", "2 min 05 s", "1 h 02 min"]
