"""Verifying audit trails: one writer's hash chain, or the chains of all writers at once, page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bus.audit.records import AuditRecord, Head, SignedHead, digest, read_record


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
    waiting: int = 0
    """Decisions that a writer which has not ended had yet to store, by its last word: lost, if it has crashed."""


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


class ChainVerifier:
    """Fed page after page, it knows how far each writer's chain holds and where the first break is."""

    def __init__(self, whole: bool) -> None:
        """`whole` says that the stream was never shortened: then each chain must begin with record 1."""
        self.writers: dict[str, Verified] = {}
        self.starts: dict[str, int] = {}
        """With which record each chain begins; those before it were discarded."""
        self._whole = whole

    def take(self, writer: str, records: Sequence[bytes]) -> None:
        """Follow a writer's chain through its next page; behind a break nothing is looked at."""
        known = self.writers.get(writer)
        if known is None:
            known = Verified(self._start(writer, records))
        if known.broken is not None:
            return
        if not records:
            self.writers[writer] = Verified(
                known.head, known.dropped, Break(known.head.sequence + 1, "is unreadable")
            )
            return
        found = verify_chain(records, writer, known.head)
        self.writers[writer] = Verified(found.head, known.dropped + found.dropped, found.broken)

    def finish(self, heads: Iterable[SignedHead], first: int) -> None:
        """See whether anything is missing at the end, once every page from number `first` on was taken.

        The heads must have been read before the pages: writers go on meanwhile.
        """
        for head in heads:
            known = self.writers.get(head.writer)
            if known is not None:
                missing = None if known.broken else _missing(known.head, head)
                left = head.lost if known.head.sequence == head.sequence else 0  # else a record has them
                self.writers[head.writer] = replace(
                    known,
                    dropped=known.dropped + (left if head.closed else 0),
                    waiting=0 if head.closed else left,
                    broken=known.broken or missing,
                    closed=head.closed,
                )
            elif not head.sequence:  # nothing of it was ever stored
                self.starts[head.writer] = 1
                lost, waiting = (head.lost, 0) if head.closed else (0, head.lost)
                self.writers[head.writer] = Verified(Head(), lost, closed=head.closed, waiting=waiting)
            elif head.page >= first:
                self.starts[head.writer] = 1
                missing = Break(1, f"is missing, and all others up to number {head.sequence}")
                self.writers[head.writer] = Verified(Head(), broken=missing, closed=head.closed)

    @property
    def broken(self) -> dict[str, Break]:
        """Where chains break, by writer."""
        return {name: each.broken for name, each in self.writers.items() if each.broken is not None}

    def _start(self, writer: str, records: Sequence[bytes]) -> Head:
        first = read_record(records[0]) if records else None
        head = Head() if self._whole or first is None else Head(first.sequence - 1, first.previous)
        self.starts[writer] = head.sequence + 1
        return head


def _missing(found: Head, said: SignedHead) -> Break | None:
    """What a writer's own word says is missing, or too much, at the end."""
    if found.sequence < said.sequence:
        return Break(found.sequence + 1, f"is missing: its writer has written {said.sequence}")
    if found.sequence == said.sequence and found.digest != said.digest:
        return Break(found.sequence, "is not what its writer wrote")
    if said.closed and found.sequence > said.sequence:
        return Break(said.sequence + 1, "was added after its writer had ended")
    return None
