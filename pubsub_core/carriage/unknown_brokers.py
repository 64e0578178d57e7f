"""Unknown brokers: parcels have come from them, and no vouch for them is known here. Pure.

A broker stores what vouches for it before it publishes anything. So whoever has missed that word finds it in the store;
only what is not vouched for there either is passed over. Invariant: the store is looked at once in a while for each
such broker and type, and for a few of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

LOOK_SECONDS = 10.0
"""Seconds before the store is read again for the same broker."""
MOST_LOOKS = 16
"""Maximum reads in that time: strangers may come with any number of keys."""


class NotVouched(Exception):
    """A parcel came from a broker of which it is not known whether it may carry its type."""


class UnknownBrokers:
    """Says for which unknown brokers the store is to be read."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._looked: dict[tuple[str, str], float] = {}

    def meet(self, sender: str, type_: str) -> None:
        """Take note of somebody who is not trusted with a type. Raises NotVouched where that may have been missed."""
        now = self._clock()
        self._looked = {each: at for each, at in self._looked.items() if now - at < LOOK_SECONDS}
        if (sender, type_) not in self._looked and len(self._looked) < MOST_LOOKS:
            self._looked[sender, type_] = now
            raise NotVouched
