"""Whose clock is wrong: what signed announcements of PDPs tell about their clocks and this one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from cachetools import LRUCache

from authz import PublicKey
from authz.authority import MAX_DECIDERS

SKEW_SECONDS = 60.0
"""How old an announcement may be, clocks included: one that is repeated leads questions astray for no longer."""
KEPT_SECONDS = 60.0
"""How long it is remembered how a PDP's clock was, if nothing more is heard of it."""

_log = logging.getLogger("authfabric.pep")


class Clocks:
    """How far the clocks of PDPs are from this one."""

    def __init__(self, monotonic: Callable[[], float] = monotonic) -> None:
        self._monotonic = monotonic
        self._newest: LRUCache[PublicKey, tuple[float, float]] = LRUCache(MAX_DECIDERS)
        """The newest time that each PDP has said, and when that was heard."""
        self._wrong: LRUCache[PublicKey, tuple[float, float]] = LRUCache(MAX_DECIDERS)

    def hear(self, key: PublicKey, at: float, now: float) -> None:
        """Take note of when a PDP says that it is.

        What is older than what it said before may be repeated by somebody, and says nothing about its clock; unless it
        says nothing newer any more, since its clock was set back.
        """
        ahead, heard = at - now, self._monotonic()
        newest, said = self._newest.get(key, (float("-inf"), heard))
        if abs(ahead) <= SKEW_SECONDS:
            self._newest[key] = at, heard
            if self._wrong.pop(key, None) is not None:
                _log.warning("the clock of the PDP `%s` is right again", key)
        elif at > newest or heard > said + KEPT_SECONDS:
            self._newest[key] = at, heard
            known = key in self.skews
            self._wrong[key] = ahead, heard
            if not known:
                _log.error("%s: its announcements are refused", _words(key, ahead))

    @property
    def skews(self) -> dict[PublicKey, float]:
        """By how many seconds clocks are ahead of this one, of those for which that is too much."""
        since = self._monotonic() - KEPT_SECONDS
        return {key: ahead for key, (ahead, heard) in list(self._wrong.items()) if heard >= since}

    @property
    def problem(self) -> str:
        """Whose clock is wrong, in words; nothing if none is known to be."""
        skews = self.skews
        if len(skews) > 1 and max(skews.values()) - min(skews.values()) <= SKEW_SECONDS:
            ahead = -next(iter(skews.values()))
            return f"this clock is {_seconds(ahead)} those of {len(skews)} PDPs"
        return "; ".join(_words(key, ahead) for key, ahead in skews.items())


def _words(key: PublicKey, ahead: float) -> str:
    return f"the clock of the PDP `{key}` is {_seconds(ahead)} this one"


def _seconds(ahead: float) -> str:
    return f"{abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'}"
