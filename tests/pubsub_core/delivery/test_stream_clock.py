"""A broker notices that its clock is wrong as soon as it is set, and never for want of an answer."""

from __future__ import annotations

import pytest

from pubsub_core.delivery.stream_clock import MARGIN, StreamClock
from pubsub_core.events import WINDOW


class Machine:
    """A monotonic clock, and a clock against which the servers' was measured."""

    def __init__(self) -> None:
        self.at = 50.0
        self.clock = StreamClock(lambda: self.at)

    def problem(self, ahead: float) -> str:
        """What is said while the servers' clock shows 1000 s at 50 s."""
        return self.clock.problem(950.0 + self.at + ahead, "north")


def test_before_the_servers_have_answered_nothing_is_wrong():
    assert not Machine().problem(1e6)


@pytest.mark.parametrize("ahead", [-1.0, 1.0])
def test_what_is_too_far_off_is_named_and_what_is_less_is_not(ahead, caplog):
    machine = Machine()
    machine.clock.measure(1000.0, 50.0, 50.0)
    limit = WINDOW - MARGIN
    assert not machine.problem(ahead * limit)
    way = "ahead of" if ahead > 0 else "behind"
    for _ in range(2):
        assert f"broker north is 29 s {way} that of the servers" in machine.problem(ahead * (limit + 1))
    machine.at += 3600.0
    assert machine.problem(ahead * (limit + 1))
    assert not machine.problem(0.0)
    assert [each.getMessage().rpartition(" ")[2] for each in caplog.records] == ["nothing", "again"]


def test_an_answer_that_was_long_on_its_way_proves_no_more_than_it_does():
    machine = Machine()
    machine.clock.measure(1000.0, 0.0, 50.0)
    assert machine.clock.skew(1000.0 + 49.0) == 0.0
    assert machine.clock.skew(1000.0 + 53.0) == 3.0
    assert machine.clock.skew(1000.0 - 3.0) == -3.0
