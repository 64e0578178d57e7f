"""The audit trail of one writer: every decision, in a chain of hashes in which a loss cannot hide.

Each record carries its number and the hash of the record before it. So a record that was altered, left out
or put in is seen where it happened; what is missing at the end is seen against the head that its writer
signs now and then. A writer's name ends with a mark of its key, so no other key can sign a head for it.
Writing never waits: when the buffer is full, decisions are counted instead of kept, and the count is a
record like any other.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from authz import Decision, Identity, PublicKey, Request
from authz.errors import AuthFabricError
from authz.seal import Seal
from authz.statement import Statement

_MARK = slice(1, 21)
"""So much of a key's text says whose it is: a hundred bits."""


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
    vouched: Vouched | None = None
    disclosed: Disclosure | None = None


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


_HEAD = Seal("audit head", SignedHead)


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


@dataclass(frozen=True, slots=True)
class Break:
    """The first place where a chain does not hold."""

    sequence: int
    """The number of the record that should have been there."""
    problem: str


@dataclass(frozen=True, slots=True)
class Verified:
    """How far a chain holds, how many decisions its writer says it dropped, and where it breaks, if it
    does."""

    head: Head
    dropped: int = 0
    broken: Break | None = None
    closed: bool | None = None
    """Whether its writer has ended it, by its own word; None if it said nothing."""


_Noted: TypeAlias = tuple[float, Request | None, Decision | None, Vouched | None, Disclosure | None]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AuditRecord).decode


def digest(record: bytes) -> bytes:
    return hashlib.blake2b(record, digest_size=32).digest()


class AuditTrail:
    """What a writer has yet to hand over, and its chain's head. One that starts anew needs a new name."""

    def __init__(self, writer: str, limit: int = 10_000) -> None:
        self.writer = writer
        self.head = Head()
        self.dropped = 0
        """Decisions not recorded so far, in all."""
        self._limit = limit
        self._waiting: deque[_Noted] = deque()
        self._unreported = 0

    def record(self, request: Request, decision: Decision, at: float) -> None:
        """Take note of a decision; hashing and encoding wait for `drain`, so that the caller does not."""
        if len(self._waiting) < self._limit:
            self._waiting.append((at, request, decision, None, None))
        else:
            self._drop()

    def vouch(self, vouched: Vouched, at: float) -> None:
        """Take note of what was stated about decisions."""
        if len(self._waiting) < self._limit:
            self._waiting.append((at, None, None, vouched, None))
        else:
            self._drop(vouched.statement.count)

    def disclose(self, disclosed: Disclosure, at: float) -> None:
        """Take note of what somebody was shown."""
        if len(self._waiting) < self._limit:
            self._waiting.append((at, None, None, None, disclosed))
        else:
            self._drop(len(disclosed.events))

    def drain(self, now: float, most: int | None = None) -> list[bytes]:
        """What was noted since the last time, or the first so many of it, encoded and chained, in order."""
        records: list[bytes] = []
        for _ in range(min(len(self._waiting), most or self._limit)):
            at, request, decision, vouched, disclosed = self._waiting.popleft()
            try:
                records.append(self._chain(at, request, decision, 0, vouched, disclosed))
            except (TypeError, ValueError, OverflowError, RecursionError):  # altered since it was asked
                self._drop()
        if self._unreported and not self._waiting:
            records.append(self._chain(now, dropped=self._unreported))
            self._unreported = 0
        return records

    def __len__(self) -> int:
        """How many decisions have yet to be handed over."""
        return len(self._waiting)

    def _drop(self, count: int = 1) -> None:
        self.dropped += count
        self._unreported += count

    def _chain(
        self,
        at: float,
        request: Request | None = None,
        decision: Decision | None = None,
        dropped: int = 0,
        vouched: Vouched | None = None,
        disclosed: Disclosure | None = None,
    ) -> bytes:
        number, previous = self.head.sequence + 1, self.head.digest
        noted = AuditRecord(self.writer, number, previous, at, request, decision, dropped, vouched, disclosed)
        encoded = _encode(noted)
        self.head = Head(number, digest(encoded))
        return encoded


def read_record(encoded: bytes) -> AuditRecord | None:
    """A record; None if it is none."""
    try:
        return _decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def verify_chain(records: Iterable[bytes], writer: str, start: Head = Head()) -> Verified:
    """Follow a writer's chain from a head known before. A record delivered twice in a row is no break."""
    head, dropped = start, 0
    for encoded in records:
        found = digest(encoded)
        if found == head.digest:
            continue
        record = read_record(encoded)
        if record is None:
            return Verified(head, dropped, Break(head.sequence + 1, "is unreadable"))
        problem = _problem(record, writer, head)
        if problem:
            return Verified(head, dropped, Break(head.sequence + 1, problem))
        head, dropped = Head(record.sequence, found), dropped + record.dropped
    return Verified(head, dropped)


def _problem(record: AuditRecord, writer: str, head: Head) -> str:
    if record.writer != writer:
        return f"is by `{record.writer}`, not by `{writer}`"
    if record.sequence > head.sequence + 1:
        return f"is missing: the next is number {record.sequence}"
    if record.sequence <= head.sequence:
        return f"is missing: number {record.sequence} comes again"
    return (
        "" if record.previous == head.digest else "does not continue the one before: one of them was altered"
    )
