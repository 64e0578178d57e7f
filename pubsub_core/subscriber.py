"""Reading what a subscription brings: in order, each event once, by the names that the reader knows."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec

from authz import PublicKey
from authz.errors import InvalidKey
from pubsub_core.errors import SessionLost, UnknownType
from pubsub_core.event import Event, decode
from pubsub_core.event_type import EventType
from pubsub_core.messages import Ended, Replay, Sent, Subscribe, Tense, Unsubscribe, decode_past
from pubsub_core.progress import RuleReplays
from pubsub_core.seen import Seen
from pubsub_core.type_mapping import Reader, reader

if TYPE_CHECKING:
    from pubsub_core.client import EventClient

MOST_VIEWS = 1024
LOOK = 16
"""Whenever a multiple of so many events waits to be read, also none, it is looked whether to acknowledge those read."""

_log = logging.getLogger("authfabric.events")


class Delivered(msgspec.Struct, frozen=True):
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


_View: TypeAlias = tuple[EventType, Reader, PublicKey]
"""The version by which events were made, how they are read, and who published them."""


class Subscriber:
    """What a subscription brings, in order: `async for event in subscriber`.

    The broker sends no more than its window ahead of what was read; a client that does not read at all is disconnected.
    """

    def __init__(
        self, client: EventClient, number: int, name: str, filter_: str, start: float | None = None
    ) -> None:
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
        self._rule_replays = RuleReplays()
        self._seen = Seen(start) if start is not None else None
        self._queue: deque[tuple[msgspec.Raw, Tense]] = deque()
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
        start = self._seen.resume if self._seen else None
        return Subscribe(self.number, self.name, self.filter, start, self._rule_replays.unfinished)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered:
        """The next event. Raises SessionLost if there will be none."""
        while True:
            if self._word is not None:
                self._past_is_over(self._word)
            while not self._queue:
                if self._ended:
                    raise SessionLost(self._ended)
                self._news.clear()
                await self._news.wait()
            raw, tense = self._queue.popleft()
            if tense:
                self.past_read += 1
            if not len(self._queue) % LOOK:
                self._client.note_read()
            event = decode_past(raw) if tense else decode(raw)
            if not isinstance(event, Event):
                self._heed(event)
            elif self._rule_replays.is_new(event) if tense is Tense.AGAIN else self._is_new(event):
                try:
                    view = self._views.get((event.version, event.publisher)) or await self._view(event)
                    made, read, publisher = view
                    values = read(event.attributes)
                except (UnknownType, InvalidKey, TypeError, ValueError) as error:
                    _log.warning(
                        "an event of `%s` that does not fit its type is left out: %s", self.name, error
                    )
                    continue
                return Delivered(made, values, event.time, publisher, event.sequence, bool(tense))

    def _heed(self, word: Ended | Sent) -> None:
        if isinstance(word, Sent):
            self._rule_replays.follow(word)
        elif word.ticket:
            self._rule_replays.end(word.ticket)
            self._miss(word)
        else:
            self._end_past(word)

    def _past_is_over(self, word: Ended) -> None:
        """Those who read nothing but the past end here."""

    def _is_new(self, event: Event) -> bool:
        return self._seen is None or self._seen.is_new(event)

    def _end_past(self, ended: Ended) -> None:
        self.caught_up = True
        self._miss(ended)

    def _miss(self, ended: Ended) -> None:
        lacking = (*((ended.refused,) if ended.refused else ()), *ended.missing)
        self.missing += lacking
        for each in lacking:
            _log.warning("past events of `%s` are missing: %s", self.name, each)

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

    def put(self, raws: Iterable[msgspec.Raw], tense: Tense) -> None:
        self._queue.extend(zip(raws, repeat(tense)))
        self._news.set()

    def begin_again(self) -> None:
        """The broker is about to be asked again, in a new session: what rules sent and was not read comes again."""
        self.past_read = 0
        sent = [raw for raw, tense in self._queue if tense is Tense.AGAIN]
        self._rule_replays.expect(map(decode_past, sent))
        self._queue = deque(each for each in self._queue if each[1] is not Tense.AGAIN)

    def end(self, problem: str) -> None:
        self._ended = problem
        self._news.set()
