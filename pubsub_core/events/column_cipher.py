"""Columnar encryption: for each key group one cipher call over its values in many events, not one for each event.

A broker passes events on in parcels. What a cipher call costs hardly depends on how much it encrypts, so the values
of a group are sealed column by column. Whoever holds a group's key reads its column, and so the same as if each event
had been sealed by itself. The headings, and the values in clear, are bound into every column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from pubsub_core.events.event import Event, Number
from pubsub_core.keys import CannotOpen, Opener, Plan, Sealed, Sealer

MAX_ROWS = 4096

_encode = msgspec.msgpack.Encoder().encode


class Columns(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events of one type: their headings, what of them is in clear, and the rest in columns."""

    type: str
    headings: list[tuple[str, bytes, float, Number]]
    """Version, publisher, time and sequence of each."""
    clear: list[dict[str, object]]
    sealed: Sealed


decode = msgspec.msgpack.Decoder(Columns).decode


def seal_columns(events: Sequence[Event], plan: Plan, sealer: Sealer) -> Columns | None:
    """Events of one type, sealed; None if no key is in use at all of their times. Raises KeyMissing."""
    type_ = events[0].type
    headings = [(each.version, each.publisher, each.time, each.sequence) for each in events]
    rows = [each.attributes for each in events]
    clear = [{name: row[name] for name in plan.clear(row)} for row in rows]
    times = [each.time for each in events]
    sealed = sealer.seal_rows(_bound(type_, headings, clear), min(times), max(times), rows)
    return Columns(type_, headings, clear, sealed) if sealed is not None else None


def open_columns(columns: Columns, plan: Plan, opener: Opener) -> list[Event]:
    """The events, with all that can be read of them here. Raises CannotOpen if they were not rightly sealed."""
    headings, sealed = columns.headings, plan.group_of.keys()
    if not 0 < len(headings) == len(columns.clear) <= MAX_ROWS:
        raise CannotOpen
    if any(not sealed.isdisjoint(row) for row in columns.clear):
        raise CannotOpen
    rows = [dict(row) for row in columns.clear]
    times = [time for _, _, time, _ in headings]
    bound = _bound(columns.type, headings, columns.clear)
    opener.open_rows(bound, min(times), max(times), columns.sealed, rows)
    return [Event(columns.type, *heading, row) for heading, row in zip(headings, rows, strict=True)]


def _bound(
    type_: str, headings: list[tuple[str, bytes, float, int]], clear: list[dict[str, object]]
) -> bytes:
    return b"columns" + hashlib.blake2b(_encode((type_, headings, clear)), digest_size=32).digest()
