"""Mail to clients: events as their restrictions allow at the moment they are sent, in order, as far as there is room.

Invariant: what is posted was looked at under the restriction in force, whether for the first time or again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bus.envelope import pack
from pubsub_core.enforcement import Enforcement
from pubsub_core.event import Event, encode
from pubsub_core.messages import Closed, Delivery, Interest, Post, Tense
from pubsub_core.rules.judge import Shown
from pubsub_core.session import Counts, Item, Session, Setting

MAX_ITEMS = 512
MAX_POST_BYTES = 256 * 1024

_log = logging.getLogger("authfabric.events")

_Sent: TypeAlias = tuple[int, msgspec.Raw] | None
"""An event with the number of its subscription, or the gap that it has left."""


class Mail:
    """Sends clients what is in their outboxes."""

    def __init__(self, setting: Setting, counts: Counts) -> None:
        self._setting = setting
        self._counts = counts

    def flush(self, session: Session) -> None:
        """Send a client what it has room for, past events and present ones in messages of their own."""
        outbox = session.outbox
        while taken := outbox.take(MAX_ITEMS):
            message = _Message(taken[0].subscription.tense)
            try:
                self._fill(message, session, taken)
            finally:
                outbox.keep(message.sent)
                outbox.put_back(taken[message.looked_at :])
            if items := message.items:
                self._counts.delivered += len(items)
                self.post(session, Delivery(outbox.last - len(items) + 1, items, message.tense))

    def resend(self, session: Session, received: int) -> None:
        """Send once more what came after this number. What may no longer be seen leaves a gap in its place."""
        session.outbox.acknowledge(received)
        first, again = session.outbox.unacknowledged(received)
        for tense, run in groupby(again, lambda item: item.subscription.tense):
            for items in _postfuls(self._again(session, item) for item in run):
                self.post(session, Delivery(first, items, tense))
                first += len(items)

    def _again(self, session: Session, item: Item) -> _Sent:
        shown = self._shown(session, item, self._setting.now())
        return (item.subscription.number, shown[item.part]) if item.part < len(shown) else None

    def post(self, session: Session, content: Delivery | Interest | Closed) -> None:
        data, channel = pack(Post(content)), session.channel
        self._setting.send(session.inbox, data if channel is None else channel.seal(data))
        if self._setting.disclosures is not None:
            self._setting.disclosures.tell()

    def _fill(self, message: _Message, session: Session, taken: Sequence[Item]) -> None:
        """Put in what comes next, as far as it belongs there and may be seen."""
        counts, now, size = self._counts, self._setting.now(), 0
        tense, items, sent = message.tense, message.items, message.sent
        for item in taken:
            subscription = item.subscription
            if subscription.tense is not tense or len(items) >= MAX_ITEMS or size >= MAX_POST_BYTES:
                break
            shown = self._shown(session, item, now)
            message.looked_at += 1
            if not shown:
                counts.withheld += 1
                continue
            if shown[0] is not item.raw:
                counts.restricted += 1
            if len(shown) == 1:
                sent.append(item)
            else:
                sent += [replace(item, part=part) for part in range(len(shown))]
            number = subscription.number
            for raw in shown:
                items.append((number, raw))
                size += len(memoryview(raw))
            if tense:
                session.past_sent[number] += len(shown)

    def _shown(self, session: Session, item: Item, now: float) -> Sequence[msgspec.Raw]:
        """An event as its subscriber may see it now: usually one, none if it may not, several if rules say so."""
        subscription, event, raw = item.subscription, item.event, item.raw
        if event is None:
            return (raw,)
        enforcement = subscription.granted.get(event.type)
        if enforcement is None:
            return ()
        if enforcement.open and item.matched is enforcement and not subscription.tense:
            return (raw,)
        try:
            return self._restricted(session, item, event, enforcement, now)
        except Exception:  # what one has published must not be in the way of what others have
            _log.exception("an event that cannot be looked at is withheld")
            return ()

    def _restricted(
        self, session: Session, item: Item, event: Event, enforcement: Enforcement, now: float
    ) -> Sequence[msgspec.Raw]:
        """What is left of an event after everything that may be said against it."""
        subscription, raw, matched = item.subscription, item.raw, item.matched is enforcement
        size = len(memoryview(raw)) if enforcement.measures else 0
        if enforcement.judge is not None:
            shown = enforcement.show(event, size, now, matched)
            if shown is None:
                return ()
            if self._setting.disclosures is not None:
                self._disclose(session, event, shown, bool(subscription.tense))
            if len(shown.events) > 1:
                return [msgspec.Raw(encode(each)) for each in shown.events]
            (made,) = shown.events
            return (raw if made is event else msgspec.Raw(encode(made)),)
        values = enforcement.deliver(event, size, now, matched)
        if values is None:
            return ()
        if values is not event.attributes:
            event = replace(event, attributes=dict(values))
            raw = msgspec.Raw(encode(event))
        if subscription.tense:  # whose disclosure is told whether or not there are rules
            self._disclose(session, event, Shown((event,), ()), True)
        return (raw,)

    def _disclose(self, session: Session, event: Event, shown: Shown, past: bool) -> None:
        if (disclosures := self._setting.disclosures) is not None:
            for each in shown.events:
                disclosures.note(session.holder.credential.name, event, each, shown.rules, past)


@dataclass(slots=True)
class _Message:
    """The next message to a client, in the making."""

    tense: Tense
    items: list[_Sent] = field(default_factory=list)
    sent: list[Item] = field(default_factory=list)
    """What the client may have to be sent again."""
    looked_at: int = 0
    """How many of those that were to come next have been sent or withheld."""


def _postfuls(items: Iterable[_Sent]) -> Iterator[list[_Sent]]:
    """What is sent, in parts that each fit a message."""
    part, size = list[_Sent](), 0
    for item in items:
        part.append(item)
        size += 0 if item is None else len(memoryview(item[1]))
        if len(part) >= MAX_ITEMS or size >= MAX_POST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
