"""A parcel: events of one bundle and one type, as one broker publishes them for all others, signed by that broker.

What is signed is a parcel's head, with the digests of its events, which its publisher's proof needs anyway: so each
broker hashes events once, and not again for each signature. Invariant: what is read has a head that its signer signed,
and the very events whose digests stand there.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from authz import Identity
from authz.crypto import Opened, Seal
from authz.errors import UNREADABLE, InvalidSignature
from pubsub_core.events import Proof, all_digests, check_places, digest


class Contents(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Events with their publisher's proof."""

    proof: Proof
    events: list[msgspec.Raw] = []
    digests: bytes = b""
    """Those of the runs of the whole bundle; of columns, theirs."""
    places: list[int] = []
    """Which of its runs are here, if not all are."""
    columns: bytes = b""
    """In place of the events: the same sealed for the type's key groups, in columns."""
    runs: list[int] = []
    """How many events there are of each run that is here; empty if they are all of one."""

    def with_digests(self) -> Contents:
        """The same, with the digests if they are missing."""
        if self.digests:
            return self
        found = digest(self.columns) if self.columns else all_digests(self.events, self.runs)
        return replace(self, digests=found)

    def check(self) -> None:
        """Raise InvalidSignature unless these are the events that the digests stand for."""
        if self.columns:
            if self.digests != digest(self.columns):
                raise InvalidSignature
        else:
            runs = self.runs or [len(self.events)]
            check_places(self.digests, self.places or range(len(runs)), self.events, runs)


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
    doubtful: int = 0
    """How many numbers before this one may not be in the stream: another broker may have published their events."""


class _Carried(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A parcel as it travels: its head, signed, and what the digests in the head stand for."""

    head: bytes
    events: list[msgspec.Raw] = []
    columns: bytes = b""


HEAD = Seal("event parcel", Parcel)
"""Signs a parcel without its events."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Carried).decode


def sign_parcel(parcel: Parcel, identity: Identity) -> bytes:
    if parcel.contents is None:
        return _encode(_Carried(HEAD.sign(parcel, identity)))
    contents = parcel.contents.with_digests()
    head = replace(parcel, contents=replace(contents, events=[], columns=b""))
    return _encode(_Carried(HEAD.sign(head, identity), contents.events, contents.columns))


def read_parcel(data: bytes) -> Opened[Parcel]:
    """A parcel and whoever signed it. Raises InvalidSignature."""
    try:
        carried = _decode(data)
    except UNREADABLE:
        raise InvalidSignature from None
    head, signer = HEAD.read(carried.head)
    if head.contents is None:
        return Opened(head, signer)
    contents = replace(head.contents, events=carried.events, columns=carried.columns)
    contents.check()
    return Opened(replace(head, contents=contents), signer)
