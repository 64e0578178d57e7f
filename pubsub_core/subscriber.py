"""Reading what a subscription brings: in order, each event once, by the names that the reader knows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from authz import PublicKey
from pubsub_core.errors import SessionLost
from pubsub_core.event import Event, decode
from pubsub_core.event_type import EventType
from pubsub_core.messages import Unsubscribe
from pubsub_core.type_mapping import Reader, reader

if TYPE_CHECKING:
    from pubsub_core.client import EventClient

MOST_VIEWS = 1024


@dataclass(frozen=True, slots=True)
class Delivered:
    """An event as its subscriber may see it, by the names of the version that it knows."""

    type: EventType
    attributes: Mapping[str, object]
    time: float
    publisher: PublicKey
    sequence: int

    def __getitem__(self, name: str) -> object:
        return self.attributes[name]


_View: TypeAlias = tuple[EventType, Reader, PublicKey]
"""The version by which events were made, how they are read, and who published them."""


class Subscriber:
    """What a subscription brings, in order: `async for event in subscriber`.

    The broker sends no more than its window ahead of what was read; a client that does not read at all is disconnected.
    """

    def __init__(self, client: EventClient, number: int, name: str, filter_: str) -> None:
        self._client = client
        self._number = number
        self.name = name
        self.filter = filter_
        self.type: EventType | None = None
        self._queue: deque[msgspec.Raw] = deque()
        self._news = asyncio.Event()
        self._ended = ""
        self._views: dict[tuple[str, bytes], _View] = {}

    @property
    def unread(self) -> int:
        """How many events have arrived and were not read."""
        return len(self._queue)

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Delivered:
        """The next event. Raises SessionLost if there will be none."""
        while not self._queue:
            if self._ended:
                raise SessionLost(self._ended)
            self._news.clear()
            await self._news.wait()
        event = decode(self._queue.popleft())
        self._client.note_read()
        made, read, publisher = self._views.get((event.version, event.publisher)) or await self._view(event)
        return Delivered(made, read(event.attributes), event.time, publisher, event.sequence)

    async def cancel(self) -> None:
        """End the subscription."""
        self._client.subscribers.pop(self._number, None)
        await self._client.call(Unsubscribe(self._number))

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

    def put(self, raw: msgspec.Raw) -> None:
        self._queue.append(raw)
        self._news.set()

    def end(self, problem: str) -> None:
        self._ended = problem
        self._news.set()
