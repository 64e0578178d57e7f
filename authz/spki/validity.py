"""When a capability may be relied on: between two times, and while news of revocations is fresh."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from authz.crypto import PublicKey
from authz.spki.errors import InvalidCapability

MAX_TIME = 253_402_300_799
"""The last second of the year 9999."""
TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How times are written."""


class Recheck(msgspec.Struct, frozen=True, array_like=True):
    """An on-line test: the maximum age, in seconds, of the newest revocation list of `key`."""

    key: PublicKey
    seconds: int

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MAX_TIME:
            raise InvalidCapability("recheck", "must allow a list to be at least one second old")


class Validity(msgspec.Struct, frozen=True, array_like=True):
    """From `start` up to but not including `end`, in Unix seconds, as long as every recheck passes."""

    start: int = 0
    end: int | None = None
    rechecks: tuple[Recheck, ...] = ()
    """By key, in order, one for each key."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= MAX_TIME or not (self.end is None or self.start < self.end <= MAX_TIME):
            raise InvalidCapability(
                "validity", "must start in 1970 or later and end after it starts, by the year 9999"
            )
        keys = [recheck.key.raw for recheck in self.rechecks]
        if keys != sorted(set(keys)):
            raise InvalidCapability("recheck", "must name each key once, in order")

    def intersect(self, other: Validity) -> Validity | None:
        """The later start, the earlier end, the rechecks of both, the stricter where both name a key."""
        start = max(self.start, other.start)
        ends = [end for end in (self.end, other.end) if end is not None]
        end = min(ends, default=None)
        if end is not None and end <= start:
            return None
        strictest: dict[bytes, Recheck] = {}
        for recheck in (*self.rechecks, *other.rechecks):
            known = strictest.setdefault(recheck.key.raw, recheck)
            if recheck.seconds < known.seconds:
                strictest[recheck.key.raw] = recheck
        return Validity(start, end, tuple(strictest[raw] for raw in sorted(strictest)))

    def covers(self, at: float) -> bool:
        return self.start <= at and (self.end is None or at < self.end)


ALWAYS = Validity()


def format_time(seconds: int) -> str:
    """Unix time as people read it."""
    return datetime.fromtimestamp(seconds, UTC).strftime(TIME)
