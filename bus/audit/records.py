"""What an audit trail holds: records in a hash chain, and the signed head that says where the chain ends.

A writer's name ends with a mark of its key, so no other key can sign a head for it.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from authz import Decision, Identity, PublicKey, Request
from authz.authority import Statement
from authz.crypto import Seal
from authz.errors import UNREADABLE, AuthFabricError

_MARK = slice(1, 21)
"""The part of a key's text that stands for the key: a hundred bits."""


class Vouched(msgspec.Struct, frozen=True, array_like=True):
    """A PDP's signed statement about decisions it has made, by their hashes; others recorded what they were."""

    statement: Statement
    leaves: tuple[bytes, ...]
    introduction: bytes
    """By whose word it could make it."""


class Disclosure(msgspec.Struct, frozen=True, array_like=True):
    """Somebody was sent events, under rules that say what it may see of them."""

    subject: str
    type: str
    """The name of the type that they were published as."""
    shown: str
    """The name of the type that they were sent as."""
    attributes: tuple[str, ...]
    """What could be seen of them."""
    rules: tuple[str, ...]
    events: tuple[tuple[bytes, int, float], ...]
    """Each by its publisher, its number and its time."""
    replayed: bool = False


class AuditRecord(msgspec.Struct, frozen=True, array_like=True):
    """One decision that was given, how many were given and not recorded, what a PDP states about some, or what
    somebody was shown."""

    writer: str
    sequence: int
    previous: bytes
    """The hash of the record before, as encoded."""
    at: float
    request: Request | None = None
    decision: Decision | None = None
    dropped: int = 0
    """How many decisions were given here, between the record before and this one, and not recorded: a gap."""
    vouched: Vouched | None = None
    disclosed: Disclosure | None = None
    release: bytes = b""
    """The hash of the release that decided, as its writer followed it; empty if it followed none of that number."""
    masked: bytes = b""
    """Where something is hidden here: the hash of the whole that the PDP signs, by its writer's word."""


class Followed(NamedTuple):
    """The release that a writer follows: its number and its hash."""

    epoch: int = 0
    hash: bytes = b""


class Head(NamedTuple):
    """Where a chain stands: the number and the hash of its newest record."""

    sequence: int = 0
    digest: bytes = bytes(32)


class SignedHead(msgspec.Struct, frozen=True, array_like=True):
    """Where a writer says that its chain stands."""

    writer: str
    sequence: int
    digest: bytes
    page: int
    """The number in the stream of the page with its newest record."""
    closed: bool = False
    """Whether nothing comes after it."""
    lost: int = 0
    """How many decisions were given after that record and are in no stored record yet; lost if it is the last word."""


_HEAD = Seal("audit head", SignedHead)
_decode = msgspec.msgpack.Decoder(AuditRecord).decode


def writer_name(name: str, key: PublicKey) -> str:
    """The name under which a key writes."""
    return f"{name}-{str(key)[_MARK]}"


def sign_head(head: SignedHead, identity: Identity) -> bytes:
    return _HEAD.sign(head, identity)


def read_head(data: bytes, writer: str) -> SignedHead | None:
    """A writer's head; None if it is none, or not by that writer's key."""
    try:
        head, signer = _HEAD.read(data)
    except AuthFabricError:
        return None
    return head if head.writer == writer and writer.endswith("-" + str(signer)[_MARK]) else None


def digest(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=32).digest()


def read_record(encoded: bytes) -> AuditRecord | None:
    """A record; None if it is none."""
    try:
        return _decode(encoded)
    except UNREADABLE:
        return None
