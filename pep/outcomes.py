"""What a PEP decided, counted by how it came to know: what it asked here, what it recycled where that is found."""

from __future__ import annotations

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
        self._asked: dict[tuple[bool, Reason], list[int]] = {}
        self._last: Decision | None = None
        """What was counted last: several questions in a message often get one and the same decision."""
        self._tally = [0]
        """Of those as that one."""

    def count(self, decision: Decision) -> None:
        """Count a decision that was asked for."""
        if decision is not self._last:
            self._last = decision
            self._tally = self._asked.setdefault((decision.allowed, decision.reason), [0])
        self._tally[0] += 1

    def all(self) -> dict[Outcome, int]:
        """How many there were of each."""
        asked = list(self._asked.items())  # another thread may ask
        return {(ASKED, *outcome): tally[0] for outcome, tally in asked} | dict(self._recycled())
