"""Windows and rates: when they hold, and when one implies another."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.spki import InvalidCapability
from authz.spki.condition import Rate, Window, conjoin, possible

OFFICE = Window(9 * 60, 17 * 60, 0b0011111, "Europe/London")
NIGHT = Window(22 * 60, 6 * 60, 1 << 6)


def london(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/London")).timestamp()


@pytest.mark.parametrize(
    ("time", "inside"),
    [
        ("2026-07-01T08:59:59", False),
        ("2026-07-01T09:00:00", True),
        ("2026-07-01T16:59:59", True),
        ("2026-07-01T17:00:00", False),
        ("2026-07-04T12:00:00", False),
    ],
)
def test_a_window_goes_by_the_wall_clock_of_its_zone(time, inside):
    assert OFFICE.holds(london(time)) is inside


def test_a_window_follows_summer_time():
    noon_utc = datetime(2026, 1, 7, 8, 30, tzinfo=ZoneInfo("UTC")).timestamp()
    same_hour_in_summer = datetime(2026, 7, 1, 8, 30, tzinfo=ZoneInfo("UTC")).timestamp()
    assert not OFFICE.holds(noon_utc)
    assert OFFICE.holds(same_hour_in_summer)


def test_a_window_past_midnight_belongs_to_the_day_it_begins_on():
    sunday = datetime(2026, 7, 5, tzinfo=ZoneInfo("UTC")).timestamp()
    hour = 3600
    assert not NIGHT.holds(sunday + 3 * hour)
    assert NIGHT.holds(sunday + 23 * hour)
    assert NIGHT.holds(sunday + 29 * hour)
    assert not NIGHT.holds(sunday + 30 * hour)


def test_a_window_implies_a_wider_one_of_its_zone_only():
    assert Window(600, 660).implies(Window(540, 1020))
    assert not Window(540, 1020).implies(Window(600, 660))
    assert not Window(600, 660).implies(Window(540, 1020, zone="Europe/London"))


def test_windows_without_a_common_minute_are_impossible_together():
    assert not possible([Window(0, 60), Window(60, 120)])
    assert possible([Window(0, 61), Window(60, 120)])


@pytest.mark.parametrize(
    "parts", [(0, 0), (-1, 5), (0, 1441), (1440, 5), (0, 60, 0), (0, 60, 128), (0, 60, 1, "Atlantis")]
)
def test_a_window_that_is_none_is_refused(parts):
    with pytest.raises(InvalidCapability):
        Window(*parts)


small_rates = st.builds(Rate, st.integers(1, 7), st.integers(1, 7))


def most_uses(rate: Rate, seconds: int) -> int:
    """The most uses that a rate lets into any one period of so many seconds, by trying every period."""
    periods = range(rate.seconds * seconds)
    touched = (len({n // rate.seconds for n in range(at * seconds, (at + 1) * seconds)}) for at in periods)
    return rate.count * max(touched)


@given(small_rates, small_rates)
def test_a_rate_implies_another_exactly_if_it_never_lets_more_into_a_period(a, b):
    assert a.implies(b) is (most_uses(a, b.seconds) <= b.count)


@given(st.lists(small_rates, max_size=4), st.lists(small_rates, max_size=4))
def test_conditions_conjoin_in_any_order(a, b):
    assert conjoin([*a, *b]) == conjoin([*conjoin(b), *conjoin(a)])


@pytest.mark.parametrize("parts", [(0, 60), (1, 0), (1, 10**9)])
def test_a_rate_that_is_none_is_refused(parts):
    with pytest.raises(InvalidCapability):
        Rate(*parts)
