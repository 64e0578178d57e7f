"""Dispatch to clients: events as restrictions allow at the moment they are sent, in order, as far as there is room.

Invariant: what is posted was looked at under the restriction in force, whether for the first time or again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, is_
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from bus.wire import pack
from pubsub_core.delivery.session import Counts, Item, Session, Setting
from pubsub_core.events import Event, GapReason, Missed, after, decode, encode
from pubsub_core.messages import Closed, Delivery, Drained, Interest, Post, Tense
from pubsub_core.rules import Shown

MAX_ITEMS = 512
"""Maximum events in one message to a client."""
MAX_POST_BYTES = 256 * 1024
"""Maximum bytes of events in one message to a client."""
TOO_LARGE = "an event was made larger than can be sent: {} bytes"
UNRECORDED = "what it was to be sent has to be recorded first, and could not be"
UNSENDABLE = "an event cannot be put into a message"

_log = logging.getLogger("authfabric.events")

_version = attrgetter("type", "version")
_Sent: TypeAlias = "tuple[int, Event | msgspec.Raw, int] | None"
"""An event with its subscription's number and its place, or the gap that it left."""


class Dispatcher:
    """Sends clients what is in their send windows."""

    def __init__(
        self,
        setting: Setting,
        counts: Counts,
        flush: Callable[[Session], None],
        close: Callable[[Session, str], None],
    ) -> None:
        """`flush` is called when something can be sent that had to be recorded first, `close` when it cannot be."""
        self._setting = setting
        self._counts = counts
        self._flush = flush
        self._close = close
        self._noted: list[tuple[Item, tuple[object, ...]]] = []
        """What was noted just now, to be recorded before it is sent, and in which form."""

    def flush(self, session: Session, held: Collection[str] = ()) -> None:
        """Send a client what it has room for, past events and present ones in messages of their own.

        What is of a type that is held waits, and whatever comes after it.
        """
        send_window = session.send_window
        while taken := send_window.take(MAX_ITEMS):
            message = _Message(taken[0].subscription.tense)
            first = send_window.last + 1
            try:
                if held or not self._fill_at_once(message, session, taken):
                    self._fill(message, session, taken, held)
            finally:
                send_window.keep(message.sent)
                send_window.put_back(taken[message.looked_at :])
            self._counts.delivered += len(message.items)
            self._deliver(session, first, message.items, message.tense)
            if message.stopped:
                break

    def resend(self, session: Session, received: int) -> None:
        """Send once more what came after this number. What may no longer be seen leaves a gap in its place."""
        session.send_window.acknowledge(received)
        first, again = session.send_window.unacknowledged(received)
        for tense, run in groupby(again, lambda item: item.subscription.tense):
            items = [self._again(session, item) for item in run]
            for start in range(0, len(items), MAX_ITEMS):
                self._deliver(session, first + start, items[start : start + MAX_ITEMS], tense)
            first += len(items)

    def _again(self, session: Session, item: Item) -> _Sent:
        shown = self._shown(session, item, self._setting.now(), again=True) or ()
        number = item.subscription.number
        if item.part < len(shown):
            return number, shown[item.part], item.place
        _settle(item)
        if item.subscription.tense:  # of a gap, no reader says that it has read it
            session.past_sent[number] -= 1
        return None

    def _deliver(self, session: Session, first: int, items: Sequence[_Sent], tense: Tense) -> None:
        """Send these, of which the first has this number, in as many messages as they take."""
        if not items:
            return
        data = self._encoded(items)
        if len(data) <= MAX_POST_BYTES:
            self.post(session, Delivery.encoded(first, data, tense))
        elif len(items) == 1:
            self._deliver(session, first, [self._missing(items[0], TOO_LARGE.format(len(data)))], tense)
        else:
            half = len(items) // 2
            self._deliver(session, first, items[:half], tense)
            self._deliver(session, first + half, items[half:], tense)

    def post(self, session: Session, content: Delivery | Interest | Closed | Drained) -> None:
        data, channel = pack(Post(content)), session.channel
        self._setting.send(session.inbox, data if channel is None else channel.seal(data))
        if self._setting.disclosures is not None:
            self._setting.disclosures.tell()

    def _fill(
        self, message: _Message, session: Session, taken: Sequence[Item], held: Collection[str]
    ) -> None:
        """Put in what comes next, as far as it belongs there and may be seen."""
        counts, now, tense = self._counts, self._setting.now(), message.tense
        items, sent, look = message.items, message.sent, self._shown
        for item in taken:
            subscription = item.subscription
            if subscription.tense is not tense:
                break
            event = item.event
            if held and item.event is not None and item.event.type in held:
                message.stopped = True
                break
            granted = subscription.granted.get(event.type) if event is not None and not tense else None
            if granted is not None and granted is item.matched and granted.open:  # as it is, almost always
                message.looked_at += 1
                sent.append(item)
                items.append((subscription.number, item.raw, item.place))
                continue
            shown = look(session, item, now)
            if shown is None:
                self._record(session, taken[message.looked_at + 1 :], now)
                message.stopped = True
                break
            message.looked_at += 1
            if not shown:
                counts.withheld += 1
                _settle(item)
                continue
            if shown[0] is not item.raw:
                counts.restricted += 1
            number = subscription.number
            if len(shown) == 1:
                sent.append(item)
                items.append((number, shown[0], item.place))
            else:
                if subscription.cursor is not None:
                    subscription.cursor.split(item.place, len(shown))
                sent += [replace(item, part=part) for part in range(len(shown))]
                items += [(number, each, item.place) for each in shown]
        if tense:
            session.past_sent.update(each.subscription.number for each in sent)

    def _fill_at_once(self, message: _Message, session: Session, taken: Sequence[Item]) -> bool:
        """Put in all of it, if the same is to be done with each event; otherwise nothing, and false."""
        subscription, past = taken[0].subscription, bool(message.tense)
        events = [
            each.event for each in taken if each.event is not None and each.subscription is subscription
        ]
        if len(events) < len(taken) or len(set(map(_version, events))) > 1:
            return False
        granted = subscription.granted.get(events[0].type)
        if granted is None or granted.restriction.recorded or (granted.open and not past):
            return False
        if subscription.cursor is not None:
            return False
        try:
            found = granted.show_all(events)
        except Exception:  # one by one, what is wrong shows, and stands in the way of nothing else
            return False
        if found is None:
            return False
        shown, rules = found
        if self._setting.disclosures is not None and (past or granted.judges):
            self._setting.disclosures.note_all(session.holder.credential.name, events, shown, rules, past)
        number, withheld = subscription.number, shown.count(None)
        if shown is events:
            message.items = [(number, item.raw, item.place) for item in taken]
        else:
            message.items = [
                (number, item.raw if each is item.event else each, item.place)
                for item, each in zip(taken, shown, strict=True)
                if each is not None
            ]
            self._counts.restricted += len(events) - withheld - sum(map(is_, events, shown))
        sent = (item for item, each in zip(taken, shown, strict=True) if each is not None)
        message.sent = list(sent) if withheld else list(taken)
        message.looked_at = len(taken)
        self._counts.withheld += withheld
        if past:
            session.past_sent[subscription.number] += len(message.sent)
        return True

    def _record(self, session: Session, ahead: Sequence[Item], now: float) -> None:
        """Have the audit stream keep what has to be recorded of what comes next, and send it then."""
        for item in ahead:
            granted = item.subscription.granted.get(item.event.type) if item.event is not None else None
            if granted is not None and granted.restriction.recorded:
                self._shown(session, item, now)
        noted, self._noted = self._noted, []
        if not noted or self._setting.disclosures is None:
            return

        def kept(done: bool) -> None:
            if not done:
                self._close(session, UNRECORDED)
                return
            for item, form in noted:
                if session.recorded.get(item) == (form, False):
                    session.recorded[item] = form, True
            self._flush(session)

        self._setting.disclosures.keep(kept)

    def _shown(
        self, session: Session, item: Item, now: float, again: bool = False
    ) -> Sequence[Event | msgspec.Raw] | None:
        """An event as its subscriber may see it now: usually one, none if it may not, several if rules say so.

        None if that has to be recorded first: it is noted, and on its way. What is sent again was recorded.
        """
        event, subscription = item.event, item.subscription
        if event is None:
            return (item.raw,)
        enforcement = subscription.granted.get(event.type)
        if enforcement is None:
            return ()
        matched, past = item.matched is enforcement, bool(subscription.tense)
        if enforcement.open and matched and not past:
            return (item.raw,)
        size = len(memoryview(item.raw)) if enforcement.measures else 0
        try:
            shown = enforcement.show(event, size, now, matched, past)
        except Exception:  # what one has published must not be in the way of what others have
            _log.exception("an event that cannot be looked at is withheld")
            return ()
        if shown is None:
            return ()
        disclosures = self._setting.disclosures
        recorded = enforcement.restriction.recorded
        if recorded and not again:
            ready = self._is_recorded(session, item, shown, past)
            if ready is not True:
                return None if ready is False else ()
        elif disclosures is not None and (past or recorded or enforcement.judges):
            for each in shown.events:
                disclosures.note(session.holder.credential.name, event, each, shown.rules, past)
        return (item.raw,) if shown.events[0] is event else shown.events

    def _is_recorded(self, session: Session, item: Item, shown: Shown, past: bool) -> bool | None:
        """Whether the audit stream has that an event is sent in this form; None if it never will."""
        disclosures, event = self._setting.disclosures, item.event
        if disclosures is None or event is None:
            _log.warning("an event is withheld: it has to be recorded first, and nothing is recorded here")
            return None
        form = shown.rules, *((each.version, *each.attributes) for each in shown.events)
        before = session.recorded.get(item)
        if before == (form, True):
            del session.recorded[item]
            return True
        if before != (form, False):
            session.recorded[item] = form, False
            self._noted.append((item, form))
            for each in shown.events:
                disclosures.note(session.holder.credential.name, event, each, shown.rules, past)
        return False

    def _encoded(self, items: Sequence[_Sent]) -> bytes:
        """The bytes of items; in place of one that has none, a gap."""
        try:
            return encode(items)
        except (TypeError, ValueError, OverflowError, RecursionError):
            _log.exception("an event that cannot be sent is withheld")
            return encode([item if _can_be_sent(item) else self._missing(item, UNSENDABLE) for item in items])

    def _missing(self, item: _Sent, detail: str) -> _Sent:
        """A gap in place of something that was to be sent."""
        if item is None:
            return None
        number, event, place = item
        return number, self._gap(detail, event if isinstance(event, Event) else decode(event)), place

    def _gap(self, detail: str, event: Event) -> msgspec.Raw:
        self._counts.gaps[GapReason.UNREADABLE] += 1
        missed = Missed(GapReason.UNREADABLE, detail, event.time, after(event.time), 1)
        return msgspec.Raw(encode(missed))


@dataclass(slots=True)
class _Message:
    """The next message to a client, in the making."""

    tense: Tense
    items: list[_Sent] = field(default_factory=list)
    sent: list[Item] = field(default_factory=list)
    """What the client may have to be sent again."""
    looked_at: int = 0
    """How many of those that were to come next have been sent or withheld."""
    stopped: bool = False
    """Whether what comes next is held."""


def _settle(item: Item) -> None:
    """What may not be seen is not waited for."""
    if item.subscription.cursor is not None and item.place:
        item.subscription.cursor.settle((item.place,), whole=True)


def _can_be_sent(item: _Sent) -> bool:
    try:
        return bool(encode(item))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
