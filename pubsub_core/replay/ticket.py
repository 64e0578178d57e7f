"""Resumption tickets: sealed state that a client holds of a replay, so that it goes on after the broker was killed.

A broker keeps in mind nothing that outlasts it, and rules send what no client could ask for by itself. So the client is
given, sealed by a key that only its broker has, what is being sent; it shows it again in its next session. Invariant: a
ticket gives its client, for its subscription and for a day, no other events than those the rule has begun to send; and
these pass what policies and rules say by then.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from authz import Identity, PublicKey
from bus.errors import BadMessage
from bus.wire import Unpack, pack
from pubsub_core.delivery import Due, Query, Subscription
from pubsub_core.keys import CannotOpen, lock, unlock

LASTS_SECONDS = 86_400.0


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    rule: str
    type: str
    filter: str
    query: Query
    until: float


_unpack = Unpack(_Ticket)


class Tickets:
    """Those of one broker."""

    def __init__(self, identity: Identity) -> None:
        self._secret = identity.derive("replays by rules")

    def issue(self, holder: PublicKey, due: Due, now: float) -> bytes:
        """A ticket for what is due. Of a rule that sets no end, what is published from now on is not of the past."""
        asked, query = due.subscription, due.query
        ends = query if query.end is not None else replace(query, end=now)
        ticket = _Ticket(due.rule, asked.type, asked.filter, ends, now + LASTS_SECONDS)
        return lock(self._secret, str(holder), pack(ticket))

    def read(
        self, ticket: bytes, holder: PublicKey, subscription: Subscription, now: float
    ) -> tuple[str, Query] | None:
        """The rule, and what it sends; None if the ticket is not this client's for this subscription, or too old."""
        try:
            found = _unpack(unlock(self._secret, str(holder), ticket))
        except (CannotOpen, BadMessage):
            return None
        same = (found.type, found.filter) == (subscription.type, subscription.filter)
        return (found.rule, found.query) if same and now < found.until else None
