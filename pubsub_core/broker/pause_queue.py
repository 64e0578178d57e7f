"""The pause queue: messages that arrive while delivery is paused, in order, bounded for each sender.

Invariant: what one sender has sent takes no room from what others send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

MAX_HELD = 10_000
"""Maximum queued messages per sender."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Maximum bytes of queued messages per sender."""
Work: TypeAlias = Callable[[], object]


@dataclass(slots=True)
class _Share:
    count: int = 0
    size: int = 0


class PauseQueue:
    """Work that waits."""

    def __init__(self) -> None:
        self._work: deque[Work] = deque()
        self._shares: dict[str, _Share] = {}

    def keep(self, work: Work) -> None:
        """Have something wait that is the broker's own."""
        self._work.append(work)

    def offer(self, sender: str, size: int, work: Work) -> bool:
        """Have something wait that somebody has sent; false if there is no more room for what that one sends."""
        share = self._shares.setdefault(sender, _Share())
        if share.count >= MAX_HELD or share.size + size > MAX_HELD_BYTES:
            return False
        share.count += 1
        share.size += size
        self._work.append(work)
        return True

    def take(self) -> Iterable[Work]:
        """Everything that waits, in the order in which it came; then nothing does."""
        work, self._work = self._work, deque()
        self._shares.clear()
        return work
