"""Events as rows of the table of their type: sealed, linked to the row before, with the values they are searched by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from pubsub_core.events import Event
from pubsub_core.history.at_rest import Body, EventCipher, Link
from pubsub_core.history.retention import Search
from pubsub_core.history.storage.condition import store
from pubsub_core.history.storage.tables import TypeTable, column_name

LINK = 4
"""The place of the link in a row."""
_FIXED = ("time", "publisher", "sequence", "body", "link")

Row: TypeAlias = tuple[object, ...]
Kept: TypeAlias = tuple[Event, Body]


def columns_of(kept: TypeTable) -> tuple[str, ...]:
    """The names of what `rows_of` makes."""
    return (*_FIXED, *(column_name(name, each.search) for name, each in kept.indexed.items()))


def rows_of(kept: TypeTable, events: Sequence[Kept], cipher: EventCipher, link: Link) -> list[Row]:
    """Events as they stand in the table, chained to the row that has this link."""
    type_, bodies = kept.keeping.type, [body for _, body in events]
    places = [_encode((type_, each.publisher, each.time, each.sequence)) for each, _ in events]
    chain = zip(events, cipher.seal_chain(bodies, places, link), strict=True)
    rows: list[Row] = [(each.time, each.publisher, each.sequence, *sealed) for (each, _), sealed in chain]
    if kept.indexed:
        rows = [row + _searched(kept, each, cipher) for row, (each, _) in zip(rows, events, strict=True)]
    return rows


def place_of(type: str, publisher: bytes, time: float, sequence: int) -> bytes:  # noqa: A002 - the users' word
    """What a sealed event is bound to."""
    return _encode((type, bytes(publisher), time, sequence))


def _searched(kept: TypeTable, event: Event, cipher: EventCipher) -> Row:
    """What the database is told of the attributes that events are searched by."""
    shown = []
    for attribute, indexed in kept.indexed.items():
        value = event.attributes.get(attribute)
        if value is not None and indexed.search is Search.BLIND:
            shown.append(cipher.blind(attribute, value))  # type: ignore[arg-type]
        else:
            shown.append(store(indexed.kind, value))  # type: ignore[arg-type]
    return tuple(shown)


_encode = msgspec.msgpack.Encoder().encode
