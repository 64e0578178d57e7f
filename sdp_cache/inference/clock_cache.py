"""Bounded caches with second-chance (CLOCK) eviction: a hit costs little more than a dictionary's."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from sys import getsizeof
from typing import Protocol, TypeVar

from cachetools import FIFOCache

PLACE_BYTES = 1024
"""Bytes for each of which an entry takes another place: so a cache is bounded in memory, too."""


class Usable(Protocol):
    """An entry of such a cache: whoever uses it sets its reference bit, `used`."""

    used: bool


class Weighed(Usable, Protocol):
    """What may be large: `weight` is the number of places it takes."""

    @property
    def weight(self) -> int: ...


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Usable)
W = TypeVar("W", bound=Weighed)


class ClockCache(FIFOCache[K, V | None]):
    """First in, first out; but an entry used since its last turn goes back to the end of the queue.

    Nearly as good as evicting the least recently used, and a hit reorders nothing. A missing key reads as
    None.
    """

    def __missing__(self, key: K) -> None:
        return None

    def popitem(self) -> tuple[K, V | None]:
        while True:
            key, entry = super().popitem()
            if entry is None or not entry.used:
                return key, entry
            entry.used = False
            self[key] = entry


class WeightedClockCache(ClockCache[K, W]):
    """The same for entries that may be large: those take several places, or are not kept at all."""

    def __init__(self, size: int) -> None:
        super().__init__(size, getsizeof=_weight)

    def keep(self, key: K, entry: W) -> None:
        """Put the entry in its place, unless it is larger than everything together may be."""
        if entry.weight <= self.maxsize:
            self[key] = entry
        else:
            self.pop(key, None)


def places(held: Iterable[object]) -> int:
    """How many places something takes that holds these texts and bytes."""
    return 1 + sum(map(getsizeof, held)) // PLACE_BYTES


def _weight(entry: Weighed | None) -> int:
    return 1 if entry is None else entry.weight
