"""Following the chains of all writers at once through the pages of an audit stream."""

from __future__ import annotations

from collections.abc import Sequence

from sdp_cache.audit import Break, Head, Verified, read_record, verify_chain


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

    @property
    def broken(self) -> dict[str, Break]:
        """Where chains break, by writer."""
        return {name: each.broken for name, each in self.writers.items() if each.broken is not None}

    def _start(self, writer: str, records: Sequence[bytes]) -> Head:
        first = read_record(records[0]) if records else None
        head = Head() if self._whole or first is None else Head(first.sequence - 1, first.previous)
        self.starts[writer] = head.sequence + 1
        return head
