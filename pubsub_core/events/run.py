"""Runs of events: those that travel one after the other, read in one step, and found to fit their type in one step.

What is done for each event by itself costs more than all that is done for a bundle. So a run is decoded as one array;
and where nothing else speaks against its events, whether their values are right is left to the decoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from authz.errors import UNREADABLE
from pubsub_core.errors import InvalidEvent
from pubsub_core.events.event import Event, Number
from pubsub_core.types import Attribute, AttributeType

Raw: TypeAlias = bytes | msgspec.Raw

_FINITE = Annotated[float, msgspec.Meta(ge=-(2.0**63), lt=2.0**63)]


class _Spot(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A place on earth."""

    lat: Annotated[float, msgspec.Meta(ge=-90.0, le=90.0)]
    lon: Annotated[float, msgspec.Meta(ge=-180.0, le=180.0)]


_CHECKED: Mapping[AttributeType, Any] = {
    AttributeType.STRING: str,
    AttributeType.INTEGER: Number,
    AttributeType.FLOAT: _FINITE,
    AttributeType.BOOLEAN: bool,
    AttributeType.TIMESTAMP: _FINITE,
    AttributeType.BYTES: bytes,
    AttributeType.GEO: _Spot,
}
"""As what the decoder reads values. It refuses some numbers that fit, and admits none that do not."""

_decode = msgspec.msgpack.Decoder(list[Event]).decode


def as_array(events: Sequence[Raw]) -> bytes:
    """The bytes of a list of these events."""
    count = len(events)
    if count < 16:
        head = bytes([0x90 | count])
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(events)


def decode_all(events: Sequence[Raw]) -> list[Event]:
    """Read what `encode` wrote, each time. Raises InvalidEvent if one of them is none."""
    try:
        return _decode(as_array(events))
    except UNREADABLE as error:
        raise InvalidEvent("event", f"cannot be read: {str(error).lower()}") from None


def lengths_of_runs(types: Iterable[str]) -> list[int]:
    """How many of one type follow each other, again and again."""
    lengths, last = list[int](), None
    for each in types:
        if each == last:
            lengths[-1] += 1
        else:
            lengths.append(1)
            last = each
    return lengths


class RunCheck:
    """Says of many events at once that they are of one version, by one publisher, and that all their values are right.

    Invariant: what it admits, `Shape.check` admits. What it does not may be right all the same.
    """

    def __init__(self, type_: str, version: str, attributes: Mapping[str, Attribute]) -> None:
        """Takes all attributes, inherited ones too, by UUID."""
        ids = {f"a{number}": id_ for number, id_ in enumerate(attributes)}
        kinds = [_CHECKED[each.type] for each in attributes.values()]
        values = msgspec.defstruct(
            "Values",
            [(name, kind | None, None) for name, kind in zip(ids, kinds, strict=True)],
            rename=ids,
            forbid_unknown_fields=True,
            gc=False,
        )
        event = msgspec.defstruct(
            "Checked",
            [
                ("type", Literal[type_]),
                ("version", Literal[version]),
                ("publisher", bytes),
                ("time", Annotated[float, msgspec.Meta(ge=0.0)]),
                ("sequence", Number),
                ("attributes", values),
                ("sealed", None, None),
            ],
            array_like=True,
            gc=False,
        )
        self._decode = msgspec.msgpack.Decoder(list[event]).decode  # type: ignore[valid-type]

    def admits(self, events: bytes, publisher: bytes, latest: float) -> bool:
        """Whether the events of this array are all by this publisher, and of no later time than this."""
        try:
            found: list[Any] = self._decode(events)
        except UNREADABLE:
            return False
        return {each.publisher for each in found} == {publisher} and max(
            [each.time for each in found]
        ) <= latest
