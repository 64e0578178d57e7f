"""Gap detection: the numbers of a sender on a subject follow each other; what repeats or is missing shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bus.wire import subjects
from pubsub_core.carriage.parcel import Parcel

MAX_SENDERS = 16_384
"""The most senders and subjects whose numbers are remembered."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Parcels that are missing before one that came."""

    lost: int
    since: float
    """When the last one before them was sent."""


NO_GAP = Gap(0, 0.0)


@dataclass(frozen=True, slots=True)
class _Last:
    """The last number of a sender on a subject. Numbers begin anew with each boot."""

    boot: int
    number: int
    time: float


class GapDetection:
    """Remembers the last number of each sender on each subject."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Last] = {}

    def gap_before(self, sender: str, parcel: Parcel) -> Gap | None:
        """What is missing between a parcel and the one before it. None if it is a repetition."""
        key, number, gap = (sender, parcel.subject), parcel.number, NO_GAP
        last = self._last.get(key)
        if last is not None:
            same = parcel.boot == last.boot
            if number <= last.number if same else parcel.time <= last.time:
                return None
            gap = Gap(number - last.number - 1 if same else 0, last.time)
        self._last[key] = _Last(parcel.boot, number, parcel.time)
        if len(self._last) > MAX_SENDERS:
            del self._last[next(iter(self._last))]
        return gap

    def forget(self, wanted: Collection[str]) -> None:
        """Expect only these types from now on: parcels of the others may be left out."""
        self._last = {
            key: each for key, each in self._last.items() if subjects.parcel_place(key[1]).type in wanted
        }
