"""Gap detection: the numbers of a sender on a subject follow each other; what repeats or is missing shows.

Numbers begin anew with each boot, of which the last few are remembered: so a repetition is told from what comes out of
turn, such as the first parcels of a sender that has restarted and whose clock was set back.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bus.wire import subjects
from pubsub_core.carriage.parcel import Parcel

MAX_SENDERS = 16_384
"""Maximum senders and subjects whose numbers are remembered."""
MAX_BOOTS = 4
"""Maximum boots of one sender whose numbers are remembered."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Parcels that are missing before one that came."""

    lost: int
    since: float
    """When the last one before them was sent."""
    late: bool = False
    """Whether the parcel itself comes out of turn: after those of a later boot, by the sender's clock."""


NO_GAP = Gap(0, 0.0)


@dataclass(slots=True)
class _Seen:
    """The last number of each boot of a sender on a subject, and the latest that was taken."""

    boot: int
    time: float
    numbers: dict[int, int]


class GapDetection:
    """Remembers the last numbers of each sender on each subject."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    def repeats(self, sender: str, parcel: Parcel) -> bool:
        """Whether a parcel of this number came, or was told of as missing, before."""
        seen = self._seen.get((sender, parcel.subject))
        return seen is not None and parcel.number <= seen.numbers.get(parcel.boot, 0)

    def gap_before(self, sender: str, parcel: Parcel) -> Gap:
        """What is missing between a parcel, which is no repetition, and the one before it."""
        seen = self._seen.get((sender, parcel.subject))
        if seen is None:
            self._seen[sender, parcel.subject] = _Seen(parcel.boot, parcel.time, {parcel.boot: parcel.number})
            if len(self._seen) > MAX_SENDERS:
                del self._seen[next(iter(self._seen))]
            return NO_GAP
        missing = parcel.number - seen.numbers.get(parcel.boot, 0) - 1
        lost, since = max(0, missing - parcel.doubtful), seen.time
        seen.numbers[parcel.boot] = parcel.number
        if len(seen.numbers) > MAX_BOOTS:
            del seen.numbers[next(iter(seen.numbers))]
        if parcel.boot != seen.boot and parcel.time <= seen.time:
            return Gap(lost, parcel.time, late=True)
        seen.boot, seen.time = parcel.boot, parcel.time
        return Gap(lost, since)

    def forget(self, wanted: Collection[str]) -> None:
        """Expect only these types from now on: parcels of the others may be left out."""
        self._seen = {
            key: each for key, each in self._seen.items() if subjects.parcel_place(key[1]).type in wanted
        }
