"""Reading what a subscription brings: in order, each event once, by the names that the reader knows."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import repeat
from time import time
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec

from authz import PublicKey
from authz.errors import InvalidKey
from pubsub_core.client.calls import CALL_SECONDS
from pubsub_core.client.replay_progress import RuleReplays
from pubsub_core.errors import InvalidEvent, SessionLost, UnknownType
from pubsub_core.events import CLOCK_MARGIN, Event, Gap, GapReason, Missed, Seen, after, decode_all, encode
from pubsub_core.messages import (
    Ended,
    Entry,
    Replay,
    Sent,
    Subscribe,
    Tense,
    Unsubscribe,
    Word,
    decode_item,
    parcel_of,
)
from pubsub_core.types import EventType, Reader, reader

if TYPE_CHECKING:
    from pubsub_core.client.session import ClientSession

MOST_VIEWS = 1024
"""Maximum cached ways of reading events, by version and publisher."""
LOOK = 16
"""How often, in events read, it is considered to send an acknowledgement."""
LOST = "the session with the broker was lost, and another has begun"

_log = logging.getLogger("authfabric.events")


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """An event as its subscriber may see it, by the names of the version that it knows."""

    type: EventType
    attributes: Mapping[str, object]
    time: float
    publisher: PublicKey
    sequence: int
    replayed: bool = False
    """Whether it is a past event, sent again."""

    def __getitem__(self, name: str) -> object:
        return self.attributes[name]

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{self.type.name}({values})"


_Read: TypeAlias = tuple[Event | Word, Entry, Tense]
"""A decoded message, and how it came."""
_View: TypeAlias = tuple[EventType, Reader, PublicKey]
"""The version of the type, how its events are read, and their publisher."""


class Subscriber:
    """What a subscription brings, in order: `async for event in subscriber`.

    Where events are missing, a `Gap` comes in their place, before any later event. Publishers are slowed down for a
    reader that is behind; one that does not read for long gets a gap.
    """

    def __init__(
        self,
        client: ClientSession,
        number: int,
        name: str,
        filter_: str,
        start: float | None = None,
        moves: bool = False,
    ) -> None:
        """`start` is from when on past events are wanted; `moves` is whether another broker may take its place."""
        self._client = client
        self.number = number
        self.name = name
        self.filter = filter_
        self.type: EventType | None = None
        self.caught_up = start is None
        """Whether all past events have been read that were asked for."""
        self.missing: tuple[str, ...] = ()
        """What of the past could not be had, as far as is known."""
        self.past_read = 0
        """How many past events were read in this session."""
        self.gaps = 0
        """How many gaps were read."""
        self._asked_from = time() if start is None else start
        """From when on everything is to come."""
        self._latest = self._asked_from
        """The time of the last event read."""
        self._resumed = False
        """Whether what was missed in an earlier session was asked for."""
        self._rule_replays = RuleReplays()
        self._wants_past = start is not None
        self._seen = Seen(self._asked_from)
        """What has come: a broker that was killed may be sent again what it has delivered."""
        self._after = -1 if moves and start is None else None
        """The number in the stream after which to go on at another broker, -1 if none is known; None if never."""
        self._queue: deque[_Read] = deque()
        self._news = asyncio.Event()
        self._ended = ""
        self._word: Ended | None = None
        """The last word about the past, where nothing comes after it."""
        self._views: dict[tuple[str, bytes], _View] = {}

    @property
    def unread(self) -> int:
        """How many events have arrived and were not read."""
        return len(self._queue)

    @property
    def call(self) -> Subscribe | Replay:
        """What to ask a broker for, or to go on with."""
        start = self._seen.resume if self._wants_past else None
        unfinished = self._rule_replays.unfinished
        return Subscribe(self.number, self.name, self.filter, start, unfinished, after=self._after)

    def resuming(self, lost: str) -> Subscribe | Replay:
        """What to ask a broker for in place of the one that was lost."""
        return self.call

    def go_on(self, position: int) -> None:
        """The broker has begun after this number in the stream; 0 if it does not say."""
        if self._after is not None:
            self._after = position or -1

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered | Gap:
        """The next event, or what is missing before it. Raises SessionLost if there will be none."""
        while True:
            if self._word is not None:
                self._past_is_over(self._word)
            while not self._queue:
                if self._ended:
                    raise SessionLost(self._ended)
                self._news.clear()
                await self._news.wait()
            event, entry, tense = self._queue.popleft()
            if tense:
                self.past_read += 1
            if not len(self._queue) % LOOK:
                self._client.note_read()
            if not isinstance(event, Event):
                if (gap := self._heed(event)) is not None:
                    return gap
            elif self._rule_replays.is_new(event) if tense is Tense.AGAIN else self._is_new(event):
                try:
                    view = self._views.get((event.version, event.publisher)) or await self._view(event)
                    made, read, publisher = view
                    values = read(event.attributes)
                except (UnknownType, InvalidKey, TypeError, ValueError) as error:
                    detail = f"an event does not fit its type: {error}"
                    unread = Missed(GapReason.UNREADABLE, detail, event.time, after(event.time), 1)
                    self._pass_over(entry, tense)
                    if (gap := self._tell(unread)) is not None:
                        return gap
                    continue
                self._latest = event.time
                delivered = Delivered(made, values, event.time, publisher, event.sequence, bool(tense))
                return self._deliver(delivered, entry)
            else:
                self._pass_over(entry, tense)

    def _deliver(self, event: Delivered, entry: Entry) -> Delivered:
        """An event as it is handed to the reader."""
        return event

    def _pass_over(self, entry: Entry, tense: Tense) -> None:
        """An event is not handed to the reader: it was before, or cannot be read."""

    def _heed(self, word: Word) -> Gap | None:
        match word:
            case Missed():
                return self._tell(word)
            case Sent():
                self._rule_replays.follow(word)
                return None
            case Ended() if word.ticket:
                self._rule_replays.end(word.ticket)
                self._lack(word)  # what rules send is no part of what was subscribed to
                return None
        return self._end_past(word)

    def _tell(self, missed: Missed) -> Gap | None:
        """What the reader is told of events that are missing here."""
        assert self.type is not None
        gap = Gap(self.type, missed.start, missed.end, missed.count, missed.reason, missed.detail)
        self.gaps += 1
        _log.warning("%s", gap)
        return gap

    def _past_is_over(self, word: Ended) -> None:
        """Those who read nothing but the past end here."""

    def _is_new(self, event: Event) -> bool:
        return self._seen.is_new(event)

    def _end_past(self, ended: Ended) -> Gap | None:
        self.caught_up = True
        return self._miss(ended)

    def _miss(self, ended: Ended) -> Gap | None:
        """Tell what of the past could not be had."""
        lacking = self._lack(ended)
        if not lacking:
            return None
        start = self._seen.resume if self._wants_past else self._asked_from
        return self._tell(Missed(GapReason.HISTORY, "; ".join(lacking), start, time() + CLOCK_MARGIN))

    def _lack(self, ended: Ended) -> tuple[str, ...]:
        lacking = (*((ended.refused,) if ended.refused else ()), *ended.missing)
        if self._resumed and not ended.ticket:
            lacking += tuple(f"`{each}` has no history" for each in ended.unkept)
        self.missing += lacking
        for each in lacking:
            _log.warning("past events of `%s` are missing: %s", self.name, each)
        return lacking

    async def cancel(self) -> None:
        """End the subscription."""
        self._client.inbox.subscribers.pop(self.number, None)
        await self._client.call(Unsubscribe(self.number))

    async def _view(self, event: Event) -> _View:
        """How events like this one are read: kept, as many more will be."""
        catalogue = self._client.catalogue
        assert self.type is not None
        made = await self._client.definition(event.version)
        # Of a sub-type all is read; of another version of its own type, what the version that it knows has.
        known = made if made.id != self.type.id else self.type
        read = reader(catalogue.attributes(made.version), catalogue.attributes(known.version))
        if len(self._views) >= MOST_VIEWS:
            self._views.clear()
        view = self._views[event.version, event.publisher] = made, read, PublicKey(event.publisher)
        return view

    def put(self, entries: Sequence[Entry], tense: Tense) -> None:
        self._queue.extend(zip(_decoded(entries), entries, repeat(tense)))
        if self._after is not None and not tense:
            places = [each.place for each in entries if each.place]
            self._after = parcel_of(places[-1]) - 1 if places else self._after
        self._news.set()

    def begin_again(self) -> None:
        """The broker is about to be asked again, in a new session: what rules sent and was not read comes again.

        What it had not delivered in the old one comes again only to those who asked for the past.
        """
        self.past_read = 0
        self._rule_replays.expect(sent for sent, _, tense in self._queue if tense is Tense.AGAIN)
        self._queue = deque(each for each in self._queue if each[2] is not Tense.AGAIN)
        self._resumed = True
        if not self._wants_past and self._after in (None, -1):
            self._lose_session()

    def _lose_session(self) -> None:
        """Put a gap behind what has come: what the broker had not delivered is lost with the session."""
        start, end = self._latest - CLOCK_MARGIN, time() + CALL_SECONDS + CLOCK_MARGIN
        missed = Missed(GapReason.SESSION, LOST, start, end)
        if self._queue:
            last = self._queue[-1][0]
            if isinstance(last, Event):
                missed = msgspec.structs.replace(missed, start=last.time - CLOCK_MARGIN)
            elif isinstance(last, Missed) and last.reason is GapReason.SESSION:
                self._queue.pop()
                missed = last.joined(missed)
        self.put([Entry(self.number, msgspec.Raw(encode(missed)))], Tense.PRESENT)

    def end(self, problem: str) -> None:
        self._ended = problem
        self._news.set()


def _decoded(entries: Sequence[Entry]) -> Sequence[Event | Word]:
    """What entries hold: events, almost always."""
    try:
        return decode_all([each.raw for each in entries])
    except InvalidEvent:
        return [_word(each) for each in entries]


def _word(entry: Entry) -> Event | Word:
    """What an entry holds; if that cannot be read, a gap in its place."""
    try:
        return decode_item(entry.raw)
    except InvalidEvent as error:
        now = time()
        return Missed(GapReason.UNREADABLE, str(error), now - CLOCK_MARGIN, now + CLOCK_MARGIN, 1)
