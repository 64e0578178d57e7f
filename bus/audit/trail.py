"""The audit trail of one writer: every decision it gives, as records in a hash chain.

Each record carries its number and the hash of the record before it. So a record that was altered, left out or put in
is seen where it happened; a missing tail is seen against the head that the writer signs now and then. Writing never
waits: when the buffer is full, decisions are counted instead of kept, and the count is a record like any other, in the
place where they are missing. What is counted in no record yet, the signed head says.
"""

from __future__ import annotations

from collections import deque
from typing import TypeAlias

import msgspec

from authz import Decision, Request
from bus.audit.masking import Mask
from bus.audit.records import AuditRecord, Disclosure, Followed, Head, Vouched, digest

_Noted: TypeAlias = tuple[
    float, Request | None, Decision | None, Vouched | None, Disclosure | None, int, Followed
]
"""A decision, how many before it were dropped, and the release in force at the time."""

_encode = msgspec.msgpack.Encoder().encode


class AuditTrail:
    """What a writer has yet to hand over, and its chain's head. One that starts anew needs a new name."""

    def __init__(self, writer: str, limit: int = 10_000, mask: Mask | None = None) -> None:
        self.writer = writer
        self._mask = mask
        self.head = Head()
        self.dropped = 0
        """Decisions not recorded so far, in all."""
        self.noted = 0
        """What was to be recorded so far, in all."""
        self.chained = 0
        """What of that is in the chain: as records, or counted in gaps."""
        self.unrecordable: deque[int] = deque(maxlen=limit)
        """Which of what was noted could not be encoded: it is counted as missing."""
        self.followed = Followed()
        """The release by which is decided here, as far as that is known."""
        self._limit = limit
        self._waiting: deque[_Noted] = deque()
        self._unreported = 0
        """Decisions not recorded since something was noted last."""
        self._unrecorded = 0
        """Those before what is chained next."""

    def record(self, request: Request, decision: Decision, at: float) -> None:
        """Take note of a decision; hashing and encoding wait for `drain`, so that the caller does not."""
        if len(self._waiting) < self._limit:
            self._note(at, request, decision)
        else:
            self._drop()

    def miss(self) -> None:
        """Count a decision that cannot be recorded."""
        self._drop()

    def vouch(self, vouched: Vouched, at: float) -> None:
        """Take note of what was stated about decisions."""
        if len(self._waiting) < self._limit:
            self._note(at, vouched=vouched)
        else:
            self._drop(vouched.statement.count)

    def disclose(self, disclosed: Disclosure, at: float) -> None:
        """Take note of what somebody was shown."""
        if len(self._waiting) < self._limit:
            self._note(at, disclosed=disclosed)
        else:
            self._drop(len(disclosed.events))

    def drain(self, now: float, most: int | None = None) -> list[bytes]:
        """What was noted since the last time, at most `most` records of it, encoded and chained, in order."""
        records: list[bytes] = []
        for _ in range(min(len(self._waiting), most or self._limit)):
            at, request, decision, vouched, disclosed, gap, followed = self._waiting.popleft()
            self._unrecorded += gap
            if self._unrecorded:
                records.append(self._gap(at))
            told = decision is not None and decision.epoch == followed.epoch
            masked = b""
            try:
                if self._mask is not None and request is not None and decision is not None:
                    request, decision, masked = self._mask.hide(request, decision)
                release = followed.hash if told else b""
                records.append(self._chain(at, request, decision, 0, vouched, disclosed, release, masked))
            except (TypeError, ValueError, OverflowError, RecursionError):  # altered since it was asked
                self.dropped += 1
                self._unrecorded += 1
                self.unrecordable.append(self.chained + self._unrecorded)
        if not self._waiting and (self._unrecorded or self._unreported):
            self._unrecorded += self._unreported
            self._unreported = 0
            records.append(self._gap(now))
        return records

    def __len__(self) -> int:
        """How many decisions have yet to be handed over."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether what is to be recorded next would be counted instead."""
        return len(self._waiting) >= self._limit

    def _note(
        self,
        at: float,
        request: Request | None = None,
        decision: Decision | None = None,
        vouched: Vouched | None = None,
        disclosed: Disclosure | None = None,
    ) -> None:
        self.noted += 1
        self._waiting.append((at, request, decision, vouched, disclosed, self._unreported, self.followed))
        self._unreported = 0

    def _gap(self, at: float) -> bytes:
        dropped, self._unrecorded = self._unrecorded, 0
        return self._chain(at, dropped=dropped)

    def _drop(self, count: int = 1) -> None:
        self.noted += count
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
        release: bytes = b"",
        masked: bytes = b"",
    ) -> bytes:
        number, previous = self.head.sequence + 1, self.head.digest
        noted = AuditRecord(
            self.writer, number, previous, at, request, decision, dropped, vouched, disclosed, release, masked
        )
        encoded = _encode(noted)
        self.head = Head(number, digest(encoded))
        self.chained += dropped or 1
        return encoded
