"""A cursor: how far subscriptions that outlast their broker have come in the stream.

They are delivered what the stream has, in its order: first what was published before, read again, then what comes. A
durable subscription's cursor knows what of it was acknowledged; whoever takes it up goes on with the rest. Invariant:
everything before `position` that is for its subscriptions was acknowledged, or is not to be seen; of what comes after,
that holds for `done` and for nothing else.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pubsub_core.events import Event
from pubsub_core.messages import parcel_of, place_of

if TYPE_CHECKING:
    from pubsub_core.access import Enforcement
    from pubsub_core.delivery.subscription_table import Subscription

PREFETCH = 1024
"""Maximum unacknowledged events of one subscriber of a durable subscription."""
SHARED_PREFETCH = 64
"""The same while several share it, so that none is idle while events wait for another."""
CROWDED = 4_096
"""Maximum queued events of a cursor while it rereads the stream."""
LIMIT = 16_384
"""Maximum queued events of a cursor; further ones are read from the stream later."""
MAX_DONE = 8_192
"""Maximum events acknowledged ahead of one that is not; no more are sent until it is."""

Read: TypeAlias = "tuple[msgspec.Raw, Event, int]"
"""An event with its place in the stream."""


@dataclass(slots=True, eq=False)
class Waiting:
    """An event that is not acknowledged."""

    place: int
    event: Event
    raw: msgspec.Raw
    matched: Enforcement
    """The restriction by which it was found to be for the subscription."""
    member: Subscription | None = None
    """Who has been given it."""
    parts: int = 1
    """How many acknowledgements it takes: rules may make several events of one."""


class Cursor:
    """Where a durable subscription stands, with those who share it; or one that outlasts its broker without a name."""

    def __init__(
        self, position: int, done: Collection[int] = (), on_progress: Callable[[], None] | None = None
    ) -> None:
        """`on_progress` is told that something was acknowledged; without it, nothing has to be."""
        self.members: list[Subscription] = []
        self.live = False
        """Whether it takes what comes; otherwise that is read again for it."""
        self.after = parcel_of(position) - 1
        """The number of the last parcel that was read for it; what it takes as it comes is counted elsewhere."""
        self.news = asyncio.Event()
        """Set whenever there may be room for more."""
        self._on_progress = on_progress
        self._start = position
        self._joined = 0
        """The number up to which everything was read again."""
        self._done = set(done)
        self._waiting: dict[int, Waiting] = {}
        """What is not acknowledged, by place."""
        self._queue: deque[Waiting] = deque()
        """What of it nobody has been given."""
        self._given: Counter[Subscription] = Counter()
        """How much of it each subscriber has been given."""
        self._coming: deque[tuple[int, list[tuple[Read, Enforcement]]]] | None = deque()
        """What has come since the mark up to which it is read again, by parcel; None if that was too much."""
        self._coming_events = 0

    @property
    def durable(self) -> bool:
        return self._on_progress is not None

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def crowded(self) -> bool:
        """Whether nothing more is to be read for it at the moment."""
        return len(self._queue) > CROWDED

    def position(self, reached: int) -> tuple[int, list[int]]:
        """The first place that is not dealt with, and what is beyond it; `reached` is the last parcel that came."""
        first = min(self._waiting, default=place_of(self._last(reached) + 1, 0))
        self._done = {each for each in self._done if each > first}
        return first, sorted(self._done)

    def _last(self, reached: int) -> int:
        """The number of the last parcel that was read for it, or came while it was live.

        What was read again counts as well: the broker's own consumer brings nothing that nobody here wanted.
        """
        return max(self.after, reached) if self.live else self.after

    def wait_for_mark(self) -> None:
        """Queue new events until `join`."""
        self.live = False
        self._coming, self._coming_events = deque(), 0

    def join(self, mark: int) -> bool:
        """Take the queued events after everything up to the mark was read; false if they were too many to keep."""
        if self._coming is None:
            return False
        coming, self._coming = self._coming, None
        self.after = self._joined = mark
        self.live = True
        for number, found in coming:
            if number > mark:
                self._queue_all(found)
        return True

    def come(self, number: int, found: Sequence[tuple[Read, Enforcement]]) -> bool:
        """Take events of a parcel as it comes; false if too many wait, and it has to be read again later."""
        if self.live:
            if number > self._joined:
                self._queue_all(found)
            return len(self._queue) <= LIMIT
        if self._coming is not None:
            self._coming.append((number, list(found)))
            self._coming_events += len(found)
            if self._coming_events > LIMIT:
                self._coming = None
        return True

    def read(self, number: int, found: Sequence[tuple[Read, Enforcement]]) -> None:
        """Take events of a parcel that was read again."""
        self._queue_all(found)
        self.after = number

    def _queue_all(self, found: Iterable[tuple[Read, Enforcement]]) -> None:
        for (raw, event, place), matched in found:
            if place >= self._start and place not in self._done and place not in self._waiting:
                waiting = self._waiting[place] = Waiting(place, event, raw, matched)
                self._queue.append(waiting)

    def fall_behind(self, reached: int) -> None:
        """Leave in the stream what nobody has been given, and what comes after a parcel."""
        end = place_of(self._last(reached) + 1, 0)
        first = min((each.place for each in self._queue), default=end)
        first = min(first, end)
        for each in self._queue:
            del self._waiting[each.place]
        self._queue.clear()
        self.live, self._start = False, max(self._start, first)
        self.after = parcel_of(first) - 1

    def give(self, member: Subscription, room: int) -> list[Waiting]:
        """What a subscriber is to be sent next, as far as there is room."""
        if self.durable:
            most = PREFETCH if len(self.members) == 1 else SHARED_PREFETCH
            room = min(room, most - self._given[member] if len(self._done) <= MAX_DONE else 0)
        given = [self._queue.popleft() for _ in range(min(room, len(self._queue)))]
        self._given[member] += len(given)
        for each in given:
            each.member, each.parts = member, 1
            if not self.durable:  # the send_window has it from here on, and the client knows where it is
                del self._waiting[each.place]
                self._given[member] = 0
        if given:
            self.news.set()
        return given

    def split(self, place: int, parts: int) -> None:
        """An event is sent as several."""
        if (waiting := self._waiting.get(place)) is not None:
            waiting.parts = parts

    def settle(self, places: Iterable[int], whole: bool = False) -> None:
        """These were acknowledged, one part of each; or, as a whole, are not to be seen."""
        for place in places:
            waiting = self._waiting.get(place)
            if waiting is None:
                continue
            waiting.parts -= 1
            if whole or waiting.parts <= 0:
                del self._waiting[place]
                self._done.add(place)
                if waiting.member is not None:
                    self._given[waiting.member] -= 1
        if self._on_progress is not None:
            self._on_progress()
        self.news.set()

    def leave(self, member: Subscription) -> None:
        """A subscriber is gone: what it has not acknowledged comes first for the others."""
        if member in self.members:
            self.members.remove(member)
        del self._given[member]
        back = sorted(
            (each for each in self._waiting.values() if each.member is member), key=lambda each: each.place
        )
        for each in reversed(back):
            each.member = None
            self._queue.appendleft(each)
        self.news.set()
