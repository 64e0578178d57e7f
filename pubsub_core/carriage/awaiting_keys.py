"""A bounded queue, for each sender, of what arrived before the keys that open it.

Invariant: what one sender has sent is opened in the order in which it came, and takes no room from what others send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from pubsub_core.keys import KeyAwaited

T = TypeVar("T")
Sender: TypeAlias = tuple[str, str]
"""A broker's key, and the UUID of the type of what it has sent."""

PATIENCE = 10.0
"""Seconds for which keys are waited for."""
MAX_LATE = 1024
"""Maximum queued messages per sender that wait for keys."""
MAX_LATE_BYTES = 16 * 1024 * 1024
"""Maximum bytes of queued messages per sender."""


@dataclass(frozen=True, slots=True)
class Sealed(Generic[T]):
    """Something that may have to wait: how it is opened, how many bytes are kept, and where it stands."""

    open: Callable[[], Iterable[T]]
    size: int
    number: int
    """In the stream of its storage class."""
    storage: str = ""


@dataclass(slots=True)
class _Queue(Generic[T]):
    """What one sender has waiting, each with the time until when it is kept."""

    things: deque[tuple[float, Sealed[T]]] = field(default_factory=deque)
    size: int = 0

    def add(self, until: float, thing: Sealed[T]) -> bool:
        if len(self.things) >= MAX_LATE or self.size + thing.size > MAX_LATE_BYTES:
            return False
        self.things.append((until, thing))
        self.size += thing.size
        return True


class Late(Generic[T]):
    """Everything that waits for keys."""

    def __init__(self) -> None:
        self._queues: dict[Sender, _Queue[T]] = {}

    def oldest(self, storage: str = "") -> int | None:
        """The number of the oldest thing of a storage class that waits."""
        first = (each.things[0][1] for each in self._queues.values())
        return min((each.number for each in first if each.storage == storage), default=None)

    def waits(self, sender: Sender) -> bool:
        """Whether something of this sender waits, and all that comes after it must, too."""
        return sender in self._queues

    def keep(self, sender: Sender, thing: Sealed[T], now: float) -> bool:
        """Have something wait behind what this sender has waiting; false if there is no room."""
        queue = self._queues.get(sender)
        if queue is None:
            queue = _Queue()
        if not queue.add(now + PATIENCE, thing):
            return False
        self._queues[sender] = queue
        return True

    def open(self, now: float, given_up: Callable[[Sender], None]) -> Iterator[T]:
        """What can be opened now; `given_up` is called with the sender of each message whose keys did not come."""
        waiting, self._queues = self._queues, {}
        for sender, queue in waiting.items():
            while queue.things and sender not in self._queues:
                until, thing = queue.things[0]
                try:
                    yield from thing.open()
                except KeyAwaited:
                    if now <= until:
                        break
                    given_up(sender)
                queue.things.popleft()
            for until, thing in queue.things:
                self._queues.setdefault(sender, _Queue()).add(until, thing)
