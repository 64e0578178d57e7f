"""A bounded cache whose hits cost little more than a dictionary's."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeVar

from cachetools import FIFOCache


class Usable(Protocol):
    """What can be cached so: whoever uses an entry sets `used`."""

    used: bool


K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Usable)


class SecondChance(FIFOCache[K, V | None]):
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
