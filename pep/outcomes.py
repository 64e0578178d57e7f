"""What a PEP decided, counted by how it came to know: what it asked here, what it recycled where that is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

from authz import Decision, Reason

ASKED = "asked"

Outcome: TypeAlias = tuple[str, bool, Reason]
"""How a decision came: `asked`, or the method by which it was inferred; whether it allows; and why."""


class Outcomes:
    """Decisions of one PEP. Recycled ones are counted by the caches, which take nanoseconds for it."""

    def __init__(self, recycled: Callable[[], Mapping[Outcome, int]] = dict) -> None:
        self._recycled = recycled
        self._asked = Counter[tuple[bool, Reason]]()

    def count(self, *decisions: Decision) -> None:
        """Count decisions that were asked for."""
        for each in decisions:
            self._asked[each.allowed, each.reason] += 1

    def all(self) -> dict[Outcome, int]:
        """How many there were of each."""
        asked = {(ASKED, allowed, reason): count for (allowed, reason), count in list(self._asked.items())}
        return asked | dict(self._recycled())
