"""When to ask a second time is learned from recent answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.wire.subjects import Mode
from pep.asking.strategy import HedgeDelay, Strategy


def test_whom_each_strategy_asks():
    ladder = [(Mode.ANY,), (Mode.ANY,), (Mode.ANY, Mode.ANY), (Mode.ALL,), (Mode.ALL,)]
    assert [Strategy.HEDGE.modes(attempts) for attempts in range(5)] == ladder
    assert {Strategy.FLOOD.modes(attempts) for attempts in range(5)} == {(Mode.ALL,)}
    assert {Strategy.QUEUE.modes(attempts) for attempts in range(5)} == {(Mode.ANY,)}


class TestHedgeDelay:
    def test_it_begins_with_a_guess(self):
        assert HedgeDelay(initial=0.02).seconds == 0.02

    def test_it_learns_how_long_nearly_all_answers_take(self):
        delay = HedgeDelay()
        for n in range(HedgeDelay.SAMPLES):
            delay.learn(0.010 if n % 10 else 0.020)
        assert delay.seconds == pytest.approx(0.020 * HedgeDelay.MARGIN)

    def test_a_few_slow_ones_do_not_make_it_patient(self):
        delay = HedgeDelay()
        for n in range(HedgeDelay.SAMPLES):
            delay.learn(5.0 if n == 100 else 0.010)
        assert delay.seconds == pytest.approx(0.010 * HedgeDelay.MARGIN)

    def test_it_forgets_what_was_long_ago(self):
        delay = HedgeDelay()
        for seconds in [0.1] * HedgeDelay.SAMPLES + [0.01] * HedgeDelay.SAMPLES:
            delay.learn(seconds)
        assert delay.seconds == pytest.approx(0.01 * HedgeDelay.MARGIN)

    @given(st.lists(st.floats(0.0, 1e9)))
    def test_it_stays_within_its_bounds(self, times):
        delay = HedgeDelay(least=0.002, most=0.25)
        for seconds in times:
            delay.learn(seconds)
            assert 0.002 <= delay.seconds <= 0.25
