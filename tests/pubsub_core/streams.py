"""What a subscriber of numbered events has read, and which of its holes nobody told it of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from pubsub_core import Gap, Subscriber
from tests.waiting import PATIENCE


@dataclass
class Stream:
    """Reads until told otherwise: numbers, and gaps in their places."""

    subscriber: Subscriber
    attribute: str = "number"
    read: list[int | Gap] = field(default_factory=list)

    async def until(self, number: int) -> None:
        """Read up to and including this number."""
        async with asyncio.timeout(PATIENCE):
            while not self.read or isinstance(self.read[-1], Gap) or self.read[-1] < number:
                event = await anext(self.subscriber)
                self.read.append(event if isinstance(event, Gap) else event[self.attribute])  # type: ignore[arg-type]

    @property
    def numbers(self) -> list[int]:
        return [each for each in self.read if not isinstance(each, Gap)]

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.read if isinstance(each, Gap)]


def untold(read: Iterable[int | Gap], first: int = 0) -> list[tuple[int, int]]:
    """The holes before which no gap was read: from which number to which. Numbers may come again."""
    holes, expected, told = [], first, False
    for each in read:
        if isinstance(each, Gap):
            told = True
            continue
        if each > expected and not told:
            holes.append((expected, each - 1))
        if each >= expected:
            expected, told = each + 1, False
    return holes
