"""A parcel: events of one bundle and one type, as one broker publishes them for all others, signed by that broker."""

from __future__ import annotations

import msgspec

from authz.crypto import Seal
from pubsub_core.events import Proof


class Contents(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events with their publisher's proof."""

    proof: Proof
    events: list[msgspec.Raw] = []
    digests: bytes = b""
    """Those of the runs of the whole bundle, if not all of it is here."""
    places: list[int] = []
    """Which of its runs are here, if not all are."""
    columns: bytes = b""
    """In place of the events: the same sealed for the type's key groups, in columns."""
    runs: list[int] = []
    """How many events there are of each run that is here; empty if they are all of one."""


class Parcel(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is published on the subject of a type. Whoever signed it is the sender."""

    subject: str
    """Where it was published: elsewhere it is worth nothing."""
    boot: int
    """When the sender started: it counts from there."""
    number: int
    """Counts what the sender has published on this subject, from 1 on."""
    time: float
    """When it was signed, in Unix seconds."""
    contents: Contents | None = None
    box: bytes = b""
    """In place of the contents: any number of them, sealed and padded, for a type that travels at a steady pace."""


PARCEL = Seal("event parcel", Parcel)
