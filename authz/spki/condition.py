"""Conditions of time and frequency that hold or fail at each use: daily windows and rates.

Invariant: what is kept of several conditions is their conjunction. One is dropped only where another
implies it, and both kinds of implication here are exact, so the order in which conditions meet makes no
difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache, lru_cache
from math import gcd
from typing import TypeVar

import msgspec

from authz.spki.errors import InvalidCapability

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = (1 << len(DAYS)) - 1
MAX_PERIOD = 366 * 86_400
_DAY = 24 * 60
_WEEK = len(DAYS) * _DAY


class Window(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A part of each of some days, in minutes after midnight on the wall clocks of a time zone.

    `end` is not inside. A window whose end is before its start runs past midnight and belongs to the day it
    begins on.
    """

    start: int
    end: int
    days: int = EVERY_DAY
    """One bit a day, Monday the lowest."""
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if not 0 <= self.start < _DAY or not 0 < self.end <= _DAY or self.start == self.end:
            raise InvalidCapability(
                "when", "must run from 00:00 or later until another time, 24:00 at the latest"
            )
        if not 0 < self.days <= EVERY_DAY:
            raise InvalidCapability("when", "must name at least one day of the week")
        if self.zone not in _zones():
            raise InvalidCapability(
                "when", f"`{self.zone}` must be a time zone such as `UTC` or `Europe/London`"
            )

    def holds(self, at: float) -> bool:
        """Whether it is inside the window at this Unix time."""
        import zoneinfo  # and what it finds zones by: few capabilities name any

        local = datetime.fromtimestamp(at, zoneinfo.ZoneInfo(self.zone))
        return bool(_minutes(self) >> (local.weekday() * _DAY + local.hour * 60 + local.minute) & 1)

    def implies(self, other: Window) -> bool:
        return self.zone == other.zone and not _minutes(self) & ~_minutes(other)


class Rate(msgspec.Struct, frozen=True, array_like=True, order=True):
    """At most `count` uses in each period; periods lie end to end from 1970 on."""

    count: int
    seconds: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidCapability("rate", "must allow at least one use")
        if not 0 < self.seconds <= MAX_PERIOD:
            raise InvalidCapability("rate", "must have a period of at least a second and at most a year")

    def implies(self, other: Rate) -> bool:
        """Whether keeping to this rate is always keeping to the other.

        A period of the other meets at most this many periods of ours, and each may hold all its uses in the
        part that meets.
        """
        periods = 1 + -(-(other.seconds - gcd(self.seconds, other.seconds)) // self.seconds)
        return self.count * periods <= other.count


_Condition = TypeVar("_Condition", Window, Rate)


def conjoin(conditions: Iterable[_Condition]) -> frozenset[_Condition]:
    """The same conjunction without those that another implies."""
    every = frozenset(conditions)
    return frozenset(c for c in every if not any(c != other and other.implies(c) for other in every))


def possible(windows: Iterable[Window]) -> bool:
    """Whether some minute of the week lies in all windows of each zone."""
    common: dict[str, int] = {}
    for window in windows:
        common[window.zone] = common.get(window.zone, -1) & _minutes(window)
    return all(common.values())


@lru_cache(maxsize=1024)
def _minutes(window: Window) -> int:
    """The minutes of the week inside the window, one bit each."""
    length = (window.end - window.start) % _DAY or _DAY
    week = 0
    for day in range(len(DAYS)):
        if window.days >> day & 1:
            week |= ((1 << length) - 1) << (day * _DAY + window.start)
    return (week | week >> _WEEK) & ((1 << _WEEK) - 1)


@cache
def _zones() -> frozenset[str]:
    import zoneinfo

    return frozenset(zone for zone in zoneinfo.available_timezones() if zone[0].isupper())
