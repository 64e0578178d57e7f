"""The newest decisions, and how many there were of each kind: what the console shows of the audit stream."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass

from authz import Decision, Request
from bus.audit import AuditRecord, DecisionFilter

KEPT = 5000
"""Maximum decisions remembered."""
SECONDS = 120
"""Seconds over which rates are shown."""


@dataclass(frozen=True, slots=True)
class Line:
    """A decision as it was recorded."""

    number: int
    """Counts everything that was heard since the console runs."""
    at: float
    writer: str
    request: Request
    decision: Decision

    @property
    def how(self) -> str:
        """Whether it was asked for, or by which kind of recycling it was inferred."""
        inferred = self.decision.inferred
        return "asked" if inferred is None else str(inferred.method)


@dataclass(slots=True)
class Second:
    """What was heard within one second."""

    at: int
    allowed: int = 0
    denied: int = 0
    failed: int = 0


class DecisionLog:
    """Fed with audit records, it remembers the newest and counts all."""

    def __init__(self) -> None:
        self.lines: deque[Line] = deque(maxlen=KEPT)
        self.heard = 0
        """Decisions heard in all."""
        self.lost = 0
        """Decisions that writers say they did not record."""
        self.how: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        """Denials and failures, by reason."""
        self._seconds: deque[Second] = deque(maxlen=SECONDS)

    def take(self, records: Iterable[AuditRecord], now: float) -> None:
        for record in records:
            self.lost += record.dropped
            if record.request is not None and record.decision is not None:
                self._add(record, record.request, record.decision, now)

    def _add(self, record: AuditRecord, request: Request, decision: Decision, now: float) -> None:
        self.heard += 1
        line = Line(self.heard, record.at, record.writer, request, decision)
        self.lines.append(line)
        self.how[line.how] += 1
        second = self._second(now)
        if decision.allowed:
            second.allowed += 1
            return
        self.reasons[str(decision.reason)] += 1
        if decision.decided:
            second.denied += 1
        else:
            second.failed += 1

    def _second(self, now: float) -> Second:
        if not self._seconds or self._seconds[-1].at != int(now):
            self._seconds.append(Second(int(now)))
        return self._seconds[-1]

    def since(self, number: int, wanted: DecisionFilter, most: int) -> tuple[list[Line], int]:
        """The newest lines after a number that fit, oldest first, and how many more there were."""
        fitting = list[Line]()
        missed = 0
        for line in reversed(self.lines):
            if line.number <= number:
                break
            if wanted.fits(line.request, line.decision, line.at):
                if len(fitting) < most:
                    fitting.append(line)
                else:
                    missed += 1
        first = self.lines[0].number if self.lines else 0
        missed += max(0, first - number - 1) if number else 0
        return fitting[::-1], missed

    def rates(self, now: float) -> list[Second]:
        """Each of the last seconds, also those in which nothing was heard."""
        known = {each.at: each for each in self._seconds}
        last = int(now) - 1
        return [known.get(at) or Second(at) for at in range(last - SECONDS + 1, last + 1)]
