"""Delivery by cursors: events for subscriptions that outlast their broker, as they come and as they are read again.

Invariant: a cursor is given every event that is for its subscriptions once, of every parcel after its position; what it
has no room for stays in the stream, and is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Protocol, TypeAlias

from pubsub_core.access import Enforcement
from pubsub_core.carriage import Read, Receiving
from pubsub_core.delivery import Cursor, Item, Session, Subscription, SubscriptionTable
from pubsub_core.messages import parcel_of, place_of

Found: TypeAlias = tuple[Read, Enforcement]
"""An event for a cursor's subscriptions, and the restriction by which it was selected."""


class Rereading(Protocol):
    """Reads parts of the stream again."""

    def begin(self, cursor: Cursor) -> None:
        """Read everything that comes after a cursor's position, until it takes what comes by itself."""
        ...

    def left(self, cursor: Cursor) -> None:
        """A cursor has lost one of its subscriptions."""
        ...


class Cursors:
    """The cursors of a broker's clients."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        subscriptions: SubscriptionTable,
        receiving: Receiving,
        stays: Callable[[Collection[str]], bool],
        flush: Callable[[Session], None],
    ) -> None:
        """`stays` says whether nothing is delivered of one of some types; `flush` sends a client what there is."""
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._receiving = receiving
        self.stays = stays
        self._flush = flush
        self._all: set[Cursor] = set()
        self.last = 0
        """The number of the last parcel that came."""
        self.rereading: Rereading | None = None
        """Reads again what cursors have not taken; None if there is no stream."""

    @property
    def reached(self) -> int:
        """The number of the last parcel before which nothing waits for keys."""
        waiting = self._receiving.waiting()
        return self.last if waiting is None else min(self.last, waiting - 1)

    def __len__(self) -> int:
        return len(self._all)

    def join(self, cursor: Cursor, subscription: Subscription) -> None:
        """Have a subscription take its events from a cursor; the first begins to read."""
        subscription.cursor = cursor
        cursor.members.append(subscription)
        if cursor not in self._all:
            self._all.add(cursor)
            if not cursor.live and self.rereading is not None:
                self.rereading.begin(cursor)
        cursor.news.set()

    def leave(self, subscription: Subscription) -> None:
        """A subscription is over."""
        cursor = subscription.cursor
        if cursor is None:
            return
        cursor.leave(subscription)
        if not cursor.members:
            self._all.discard(cursor)
        if self.rereading is not None:
            self.rereading.left(cursor)

    def regrant(self, subscription: Subscription) -> None:
        """What a subscription is granted has changed: while that is nothing, what is for it stays in the stream."""
        cursor = subscription.cursor
        if cursor is not None and cursor.live and not any(each.granted for each in cursor.members):
            self._fall_behind(cursor)
        elif cursor is not None:
            cursor.news.set()

    def want(self, type_: str) -> bool:
        """Whether any cursor's subscriptions want events of a type, by UUID."""
        return any(type_ in member.granted for cursor in self._all for member in cursor.members)

    def deliver(self, reads: Sequence[Read]) -> None:
        """Give cursors the events of parcels that came; what they cannot take stays in the stream."""
        if not self._all:
            return
        came = {each[1].type for each in reads}
        for cursor in tuple(self._all):
            types = {type_ for each in cursor.members for type_ in each.granted} & came
            if cursor.live and types and self.stays(types):
                self._fall_behind(cursor)
        for cursor, found in self._found(reads).items():
            fits = [
                cursor.come(number, list(some))
                for number, some in groupby(found, lambda each: parcel_of(each[0][2]))
            ]
            if not all(fits):
                self._fall_behind(cursor)
            self.flush(cursor)

    def find(self, cursor: Cursor, reads: Sequence[Read]) -> list[Found]:
        """The events that are for a cursor's subscriptions."""
        return self._found(reads).get(cursor, [])

    def _found(self, reads: Sequence[Read]) -> dict[Cursor, list[Found]]:
        """For each cursor the events that are for its subscriptions, each once, with what it was granted by."""
        found: dict[Cursor, list[Found]] = {}
        matched = self._subscriptions.local(each[1] for each in reads)
        for read, subscriptions in zip(reads, matched, strict=True):
            for cursor, subscription in {each.cursor: each for each in subscriptions}.items():
                if cursor is not None:
                    found.setdefault(cursor, []).append((read, subscription.granted[read[1].type]))
        return found

    def flush(self, cursor: Cursor) -> None:
        """Send the subscribers of a cursor what they have room for."""
        for token in {each.session for each in cursor.members}:
            if (session := self._sessions.get(token)) is not None:
                self._flush(session)

    def wake(self) -> None:
        """What was held may be delivered again."""
        for cursor in self._all:
            cursor.news.set()

    def _fall_behind(self, cursor: Cursor) -> None:
        cursor.fall_behind(self.reached)
        if self.rereading is not None:
            self.rereading.begin(cursor)

    def fill(self, session: Session) -> None:
        """Move what a client has room for into its send_window."""
        for subscription in session.subscriptions.values() if self._all else ():
            cursor = subscription.cursor
            if cursor is None:
                continue
            late = self._receiving.waiting()
            for each in cursor.give(subscription, session.send_window.room):
                # Without acknowledgements it is for the client to know where to go on: not beyond what is late.
                place = each.place if cursor.durable or late is None else min(each.place, place_of(late, 0))
                session.send_window.put(Item(subscription, each.event, each.raw, each.matched, place=place))
