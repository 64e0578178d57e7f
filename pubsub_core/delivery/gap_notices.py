"""Telling subscribers of gaps: each notice takes the place of the missing events in the client's send_window.

Invariant: whatever a subscription was to be sent and is not sent is told to it before anything later. A subscription
with a past is not told: what it missed is read again from histories, and what they do not have is told at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from pubsub_core.delivery.session import Counts, Item, Session
from pubsub_core.delivery.subscription_table import Subscription
from pubsub_core.events import GapReason, Missed, after, encode

SLOW = (
    "the client read too slowly: more than {} events waited; read faster, subscribe with a durable name, "
    "or replay what is missing from the time of the gap"
)

_log = logging.getLogger("authfabric.events")


class Recovery(Protocol):
    """Reads again from histories what a subscription has missed."""

    def recover(self, subscription: Subscription, start: float) -> None:
        """Have what was published since a time sent again."""
        ...


class GapNotices:
    """A broker's notices of gaps to its clients."""

    def __init__(self, sessions: Mapping[str, Session], counts: Counts) -> None:
        self._sessions = sessions
        self._counts = counts
        self.recovery: Recovery | None = None

    def tell(self, types: Collection[str], missed: Missed) -> None:
        """Tell everybody who subscribed to one of these types, by UUID, of events that did not come."""
        for session in self._sessions.values():
            for each in session.subscriptions.values():
                stays = each.cursor is not None and missed.reason is GapReason.OWNER  # in the stream
                if not stays and not each.granted.keys().isdisjoint(types):
                    self.tell_one(session, each, missed)

    def overrun(self, session: Session) -> int:
        """Put notices in place of everything that waits for a client that does not keep up; says how much that was."""
        gone = session.send_window.discard(_is_present)
        missed: dict[Subscription, Missed] = {}
        for item in gone:
            word = item.missed or _missed(item, session.send_window.limit)
            before = missed.get(item.subscription)
            missed[item.subscription] = word if before is None else before.joined(word)
        told = {item.subscription for item in gone if item.missed is not None}
        for subscription, word in missed.items():
            if subscription in told:
                session.send_window.put(notice(subscription, word))
            else:
                self.tell_one(session, subscription, word)
        return sum(item.event is not None for item in gone)

    def tell_one(self, session: Session, subscription: Subscription, missed: Missed) -> None:
        """Tell one subscription."""
        if subscription.start is not None and self.recovery is not None:
            self.recovery.recover(subscription, missed.start)
            return
        newest = session.send_window.newest
        if newest is not None and newest.missed is not None and newest.subscription is subscription:
            session.send_window.replace_newest(notice(subscription, newest.missed.joined(missed)))
            return
        session.send_window.put(notice(subscription, missed))
        self._counts.gaps[missed.reason] += 1
        _log.warning(
            "`%s` is told that events are missing (%s): %s",
            session.holder.credential.name,
            missed.reason,
            missed.detail,
        )


def notice(subscription: Subscription, missed: Missed) -> Item:
    return Item(subscription, None, msgspec.Raw(encode(missed)), missed=missed)


def _is_present(item: Item) -> bool:
    """Whether it is an event as it was published, or that such are missing: past events are read as there is room."""
    return not item.subscription.tense and (item.event is not None or item.missed is not None)


def _missed(item: Item, limit: int) -> Missed:
    """A gap in place of an event: counted if it was certain that the client may see it."""
    event = item.event
    assert event is not None
    enforcement = item.subscription.granted.get(event.type)
    seen = enforcement is not None and enforcement.open and item.matched is enforcement
    count = 1 if seen else None
    return Missed(GapReason.SLOW_CONSUMER, SLOW.format(limit), event.time, after(event.time), count)
