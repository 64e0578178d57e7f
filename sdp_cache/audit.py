"""The audit trail of one writer: every decision, in a chain of hashes in which a loss cannot hide.

Each record carries its number and the hash of the record before it. So a record that was altered, left out
or put in is seen where it happened; what is missing at the end is seen by whoever knows the newest head.
Writing never waits: when the buffer is full, decisions are counted instead of kept, and the count is a
record like any other.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from authz import Decision, Request


class AuditRecord(msgspec.Struct, frozen=True, array_like=True):
    """One decision that was given, or how many were given and not recorded."""

    writer: str
    sequence: int
    previous: bytes
    """The hash of the record before, as encoded."""
    at: float
    request: Request | None = None
    decision: Decision | None = None
    dropped: int = 0


class Head(NamedTuple):
    """Where a chain stands: the number and the hash of its newest record."""

    sequence: int = 0
    digest: bytes = bytes(32)


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
        self._waiting: deque[tuple[float, Request, Decision]] = deque()
        self._unreported = 0

    def record(self, request: Request, decision: Decision, at: float) -> None:
        """Take note of a decision; hashing and encoding wait for `drain`, so that the caller does not."""
        if len(self._waiting) < self._limit:
            self._waiting.append((at, request, decision))
        else:
            self._drop()

    def drain(self, now: float, most: int | None = None) -> list[bytes]:
        """What was noted since the last time, or the first so many of it, encoded and chained, in order."""
        records: list[bytes] = []
        for _ in range(min(len(self._waiting), most or self._limit)):
            try:
                records.append(self._chain(*self._waiting.popleft()))
            except (TypeError, ValueError, OverflowError, RecursionError):  # altered since it was asked
                self._drop()
        if self._unreported and not self._waiting:
            records.append(self._chain(now, dropped=self._unreported))
            self._unreported = 0
        return records

    def __len__(self) -> int:
        """How many decisions have yet to be handed over."""
        return len(self._waiting)

    def _drop(self) -> None:
        self.dropped += 1
        self._unreported += 1

    def _chain(
        self, at: float, request: Request | None = None, decision: Decision | None = None, dropped: int = 0
    ) -> bytes:
        number, previous = self.head.sequence + 1, self.head.digest
        encoded = _encode(AuditRecord(self.writer, number, previous, at, request, decision, dropped))
        self.head = Head(number, digest(encoded))
        return encoded


def read_record(encoded: bytes) -> AuditRecord | None:
    """A record; None if it is none."""
    try:
        return _decode(encoded)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def verify_chain(records: Iterable[bytes], writer: str, start: Head = Head()) -> Verified:  # noqa: B008 - frozen
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
