"""Mail to clients: events as their restrictions allow at the moment they are sent, in order, as far as there is room.

Invariant: what is posted was looked at under the restriction in force, whether for the first time or again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from bus.envelope import pack
from pubsub_core.event import Event, encode
from pubsub_core.messages import Closed, Delivery, Interest, Post, Tense
from pubsub_core.rules.judge import Shown
from pubsub_core.session import Counts, Item, Session, Setting

MAX_ITEMS = 512
MAX_POST_BYTES = 256 * 1024


class Mail:
    """Sends clients what is in their outboxes."""

    def __init__(self, setting: Setting, counts: Counts) -> None:
        self._setting = setting
        self._counts = counts

    def flush(self, session: Session) -> None:
        """Send a client what it has room for."""
        outbox = session.outbox
        while (item := outbox.peek()) is not None:
            tense = item.subscription.tense
            if items := self._next(session, tense):
                self._counts.delivered += len(items)
                self.post(session, Delivery(outbox.last - len(items) + 1, items, tense))

    def resend(self, session: Session, received: int) -> None:
        """Send once more what came after this number. What may no longer be seen leaves a gap in its place."""
        session.outbox.acknowledge(received)
        first, again = session.outbox.unacknowledged(received)
        for tense, run in groupby(again, lambda item: item.subscription.tense):
            alike = list(run)
            for start in range(0, len(alike), MAX_ITEMS):
                items = [self._again(session, item) for item in alike[start : start + MAX_ITEMS]]
                self.post(session, Delivery(first, items, tense))
                first += len(items)

    def _again(self, session: Session, item: Item) -> tuple[int, msgspec.Raw] | None:
        shown = self._shown(session, item)
        return (item.subscription.number, shown[item.part]) if item.part < len(shown) else None

    def post(self, session: Session, content: Delivery | Interest | Closed) -> None:
        data, channel = pack(Post(content)), session.channel
        self._setting.send(session.inbox, data if channel is None else channel.seal(data))
        if self._setting.disclosures is not None:
            self._setting.disclosures.tell()

    def _next(self, session: Session, tense: Tense) -> list[tuple[int, msgspec.Raw] | None]:
        """What goes into the next message, past events or present ones, numbered from now on."""
        outbox, size = session.outbox, 0
        items: list[tuple[int, msgspec.Raw] | None] = []
        while len(items) < MAX_ITEMS and size < MAX_POST_BYTES and (item := outbox.peek()) is not None:
            if item.subscription.tense is not tense:
                break
            shown = self._shown(session, item)
            if not shown:
                outbox.drop()
                self._counts.withheld += 1
                continue
            if len(shown) > 1:
                outbox.split([item._replace(part=part) for part in range(len(shown))])
            self._counts.restricted += shown[0] is not item.raw
            for raw in shown:
                outbox.send()
                items.append((item.subscription.number, raw))
                size += len(memoryview(raw))
            if tense:
                session.past_sent[item.subscription.number] += len(shown)
        return items

    def _shown(self, session: Session, item: Item) -> Sequence[msgspec.Raw]:
        """An event as its subscriber may see it now: usually one, none if it may not, several if rules say so."""
        subscription, event, raw, matched, _ = item
        if event is None:
            return (raw,)
        enforcement = subscription.granted.get(event.type)
        if enforcement is None:
            return ()
        if enforcement.open and matched is enforcement and not subscription.tense:
            return (raw,)
        size, now = len(memoryview(raw)), self._setting.now()
        if enforcement.judge is not None:
            shown = enforcement.show(event, size, now, matched is enforcement)
            if shown is None:
                return ()
            self._disclose(session, event, shown, bool(subscription.tense))
            return [raw if each is event else msgspec.Raw(encode(each)) for each in shown.events]
        values = enforcement.deliver(event, size, now, matched is enforcement)
        if values is None:
            return ()
        if values is not event.attributes:
            event = msgspec.structs.replace(event, attributes=dict(values))
            raw = msgspec.Raw(encode(event))
        if subscription.tense:  # whose disclosure is told whether or not there are rules
            self._disclose(session, event, Shown((event,), ()), True)
        return (raw,)

    def _disclose(self, session: Session, event: Event, shown: Shown, past: bool) -> None:
        if self._setting.disclosures is not None:
            for each in shown.events:
                name = session.holder.credential.name
                self._setting.disclosures.note(name, event, each, shown.rules, past)
