"""Sets of roles as bit masks: one bit a role, so that subset and intersection are single operations.

Invariant: with a hierarchy every mask made here is closed under juniors, for a senior role has what its
juniors have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Mask: TypeAlias = int
"""A set of roles."""


def bits(mask: Mask) -> Iterator[Mask]:
    """The members, each as a mask of its own."""
    while mask:
        low = mask & -mask
        yield low
        mask ^= low


class RoleMasks:
    """The bits of the roles met so far: those of the hierarchy and at most `limit` others."""

    __slots__ = ("_bits", "_closed", "_room", "hierarchical")

    def __init__(self, juniors: Mapping[str, Sequence[str]] | None = None, limit: int = 4096) -> None:
        juniors = juniors or {}
        self.hierarchical = bool(juniors)
        self._bits: dict[str, Mask] = {}
        self._room = limit
        for role in juniors:
            for each in (role, *juniors[role]):
                self._bits.setdefault(each, 1 << len(self._bits))
        self._closed = {role: self._close(role, juniors) for role in self._bits}

    def _close(self, role: str, juniors: Mapping[str, Sequence[str]]) -> Mask:
        found, pending = 0, [role]
        while pending:
            each = pending.pop()
            if not found & self._bits[each]:
                found |= self._bits[each]
                pending.extend(juniors.get(each, ()))
        return found

    def bit(self, role: str) -> Mask:
        """The role alone, without its juniors; nothing if it was never met."""
        return self._bits.get(role, 0)

    def read(self, roles: object) -> tuple[Mask, bool] | None:
        """The roles met before, and whether those are all; None for what is no list of roles."""
        if not isinstance(roles, (list, tuple)):
            return None
        closed, found, complete = self._closed, 0, True
        try:
            for role in roles:
                if role in closed:
                    found |= closed[role]
                else:
                    complete = False
        except TypeError:  # something unhashable among them
            return None
        return found, complete

    def admit(self, roles: Sequence[str]) -> Mask | None:
        """All these roles, giving bits to new ones; None if there is no room for those."""
        new = [role for role in dict.fromkeys(roles) if role not in self._bits]
        if len(new) > self._room:
            return None
        self._room -= len(new)
        for role in new:
            self._bits[role] = self._closed[role] = 1 << len(self._bits)
        found = 0
        for role in roles:
            found |= self._closed[role]
        return found
