"""Mail to clients: events as their restrictions allow at the moment they are sent, in order, as far as there is room.

Invariant: what is posted was looked at under the restriction in force, whether for the first time or again.
"""

from __future__ import annotations

import msgspec

from bus.envelope import pack
from pubsub_core.event import encode
from pubsub_core.messages import Closed, Delivery, Interest, Post
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
        while items := self._next(session):
            first = session.outbox.last - len(items) + 1
            self._counts.delivered += len(items)
            self.post(session, Delivery(first, items))

    def resend(self, session: Session, received: int) -> None:
        """Send once more what came after this number. What may no longer be seen leaves a gap in its place."""
        session.outbox.acknowledge(received)
        first, again = session.outbox.unacknowledged(received)
        for start in range(0, len(again), MAX_ITEMS):
            items: list[tuple[int, msgspec.Raw] | None] = []
            for item in again[start : start + MAX_ITEMS]:
                shown = self._shown(item)
                items.append(None if shown is None else (item.subscription.number, shown))
            self.post(session, Delivery(first + start, items))

    def post(self, session: Session, content: Delivery | Interest | Closed) -> None:
        data, channel = pack(Post(content)), session.channel
        self._setting.send(session.inbox, data if channel is None else channel.seal(data))

    def _next(self, session: Session) -> list[tuple[int, msgspec.Raw] | None]:
        """What goes into the next message, numbered from now on."""
        outbox, size = session.outbox, 0
        items: list[tuple[int, msgspec.Raw] | None] = []
        while len(items) < MAX_ITEMS and size < MAX_POST_BYTES and (item := outbox.peek()) is not None:
            shown = self._shown(item)
            if shown is None:
                outbox.drop()
                self._counts.withheld += 1
                continue
            outbox.send()
            items.append((item.subscription.number, shown))
            size += len(memoryview(shown))
        return items

    def _shown(self, item: Item) -> msgspec.Raw | None:
        """An event as its subscriber may see it now; None if it may not."""
        subscription, event, raw, matched = item
        enforcement = subscription.granted.get(event.type)
        if enforcement is None:
            return None
        size = len(memoryview(raw))
        values = enforcement.deliver(event, size, self._setting.now(), matched is enforcement)
        if values is None or values is event.attributes:
            return None if values is None else raw
        return msgspec.Raw(encode(msgspec.structs.replace(event, attributes=dict(values))))
