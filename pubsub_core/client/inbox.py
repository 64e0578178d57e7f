"""The inbox of a client: events in order, each once, and how far they were read.

Invariant: everything up to `received` has come and been handed to its subscriber, and nothing beyond.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from pubsub_core.messages import Delivery, Received

if TYPE_CHECKING:
    from pubsub_core.client.subscriber import Subscriber

ACKNOWLEDGE = 512
"""Maximum events read before they are acknowledged."""

_number = attrgetter("number")


class Inbox:
    """Where a session's events come in."""

    def __init__(self) -> None:
        self.subscribers: dict[int, Subscriber] = {}
        self.received = 0
        """The number of the last event that has come."""
        self._acknowledged = 0

    def begin(self) -> None:
        """A new session counts anew."""
        self.received = self._acknowledged = 0

    def take(self, delivery: Delivery) -> bool:
        """Take what is new, none of it twice; false, and nothing is taken, if something is missing before it."""
        known = self.received - delivery.first + 1
        if known < 0:
            return False
        fresh = delivery.items[known:]
        self.received += len(fresh)
        for number, some in groupby(filter(None, fresh), _number):
            subscriber = self.subscribers.get(number)
            if subscriber is not None:
                subscriber.put(list(some), delivery.tense)
        return True

    def word(self, session: str, acked: dict[int, list[int]] | None = None) -> Received:
        """The acknowledgement: up to which number everything was read, and what is acknowledged besides."""
        past = {n: each.past_read for n, each in self.subscribers.items() if each.past_read}
        return Received(session, self._read(), past, acked or {})

    def acknowledge(self) -> bool:
        """Whether enough was read to tell the broker now. Then it is taken to be told."""
        read = self._read()
        if read - self._acknowledged < ACKNOWLEDGE:
            return False
        self._acknowledged = read
        return True

    def _read(self) -> int:
        return self.received - sum(each.unread for each in self.subscribers.values())
