"""When a group must have a new key: not at each coming and going, but when a capability stops covering the old one.

Bacon, Eyers, Singh, Pietzuch, Access Control in Publish/Subscribe Systems (2008), section 5.8.2 and figure 2.
Whoever joins with a capability that was valid when the present key began may have that key. Whoever leaves may
keep it until its capability ends: it was entitled to what is said until then. Beyond that, no key is used for
longer than a period. Invariant: no key is in use that began before a holder's capability did, or goes on after it
ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec


class Tenure(msgspec.Struct, frozen=True, array_like=True):
    """For how long a member's capability entitles it to a group's keys, in Unix seconds."""

    start: float
    end: float = math.inf
    left: bool = False
    """Whether it has said that it needs no further keys."""

    def covers(self, at: float) -> bool:
        return self.start <= at < self.end

    def stays(self, at: float) -> bool:
        """Whether it is to have a key that begins at this time."""
        return not self.left and self.covers(at)


def may_have(tenure: Tenure, began: float) -> bool:
    """Whether a joining member may be given a key that began at this time, so that no new one is needed."""
    return tenure.start <= began


def next_refresh(began: float, period: float, holders: Iterable[Tenure]) -> float:
    """When the key that began at this time must be followed by another, given all who hold it."""
    return min(began + period, min((tenure.end for tenure in holders), default=math.inf))
