"""The send window: a client's events, numbered, sent as far as it keeps up, kept until acknowledged.

Invariant: the client can be sent, again and in order, everything it has not acknowledged. What is not sent yet has no
number yet, so that it can still be withheld.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Generic, TypeVar

T = TypeVar("T")

WINDOW = 4096
"""Maximum unacknowledged events of a client."""
LIMIT = 65_536
"""Maximum queued events of a client beyond its window; more are discarded, and reported as a gap."""


class SendWindow(Generic[T]):
    """A queue with numbers, from 1 on."""

    def __init__(self, window: int = WINDOW, limit: int = LIMIT) -> None:
        self._window = window
        self.limit = limit
        """How many may wait to be sent."""
        self._unsent: deque[T] = deque()
        self._sent: deque[T] = deque()
        self.received = 0
        """The number up to which the client has everything."""

    def __iter__(self) -> Iterator[T]:
        """Everything that may still be sent, for the first time or again."""
        return chain(self._sent, self._unsent)

    @property
    def last(self) -> int:
        """The number of what was sent last."""
        return self.received + len(self._sent)

    @property
    def full(self) -> bool:
        return len(self._unsent) > self.limit

    @property
    def waiting(self) -> int:
        """How many are not sent yet."""
        return len(self._unsent)

    @property
    def room(self) -> int:
        """How many more could be sent at once."""
        return max(0, self._window - len(self._sent) - len(self._unsent))

    @property
    def newest(self) -> T | None:
        """The last of what is not sent yet."""
        return self._unsent[-1] if self._unsent else None

    def replace_newest(self, item: T) -> None:
        self._unsent[-1] = item

    def put(self, *items: T) -> None:
        self._unsent.extend(items)

    def discard(self, which: Callable[[T], bool]) -> list[T]:
        """Take out what is not sent yet and is like this."""
        gone, kept = list[T](), deque[T]()
        for item in self._unsent:
            (gone if which(item) else kept).append(item)
        self._unsent = kept
        return gone

    def take(self, most: int) -> list[T]:
        """What would be sent next, as far as the client has room: to be kept as sent, put back, or withheld."""
        unsent = self._unsent
        count = min(most, len(unsent), self._window - len(self._sent))
        if count == len(unsent):
            self._unsent = deque()
            return list(unsent)
        return [unsent.popleft() for _ in range(count)]

    def keep(self, items: Iterable[T]) -> None:
        """These were sent, with the numbers that come next."""
        self._sent.extend(items)

    def put_back(self, items: Sequence[T]) -> None:
        """These were not sent after all, and come next."""
        self._unsent.extendleft(reversed(items))

    def acknowledge(self, number: int) -> None:
        """The client has everything up to this number."""
        sent = self._sent
        new = max(0, min(number - self.received, len(sent)))
        if new == len(sent):
            sent.clear()
        else:
            for _ in range(new):
                sent.popleft()
        self.received += new

    def unacknowledged(self, number: int) -> tuple[int, list[T]]:
        """What to send again to a client that has everything up to this number: from which number on, and what."""
        first = max(number, self.received) + 1
        return first, list(islice(self._sent, first - self.received - 1, None))
