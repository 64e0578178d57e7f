"""Nonce allocation: counters under random salts, so that no cipher ever meets a nonce twice.

A counter belongs to a salt of 128 random bits, which goes into every key derived for it. Another process, a forked
child and a restart each draw another salt, as does a counter that has come to its end; so a number
and its salt never come together again.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

from pubsub_core.keys.derivation import SALT_BYTES

LIMIT = 2**32
"""Maximum nonces under one salt."""
NONCE_BYTES = 12


class Numbers:
    """A counter and its salt."""

    __slots__ = ("__weakref__", "_draw", "_next", "salt")

    def __init__(self, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._draw = draw
        self.renew()
        _all.add(self)

    def take(self) -> int:
        """The next number, under the salt that stands afterwards. It stays used whatever becomes of it."""
        if self._next >= LIMIT:
            self.renew()
        self._next += 1
        return self._next - 1

    def renew(self) -> None:
        """Begin again with another salt."""
        self.salt = self._draw(SALT_BYTES)
        self._next = 0


def nonce(number: int) -> bytes:
    return number.to_bytes(NONCE_BYTES, "big")


_all: weakref.WeakSet[Numbers] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child would count on from the same number under the same salt."""
    for numbers in _all:
        numbers.renew()


os.register_at_fork(after_in_child=_after_fork)
