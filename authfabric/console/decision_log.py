"""The newest decisions and disclosures, and how many there were of each kind: what the console shows of the audit
stream, and of how long PDPs take."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from authz import Decision, Request
from bus.audit import AuditRecord, DecisionFilter, Disclosure
from bus.runtime import Latencies

KEPT = 5000
"""Maximum decisions remembered."""
SECONDS = 120
"""Seconds over which rates are shown."""
SMOOTHED_SECONDS = 5
"""Over how many seconds shares and percentiles are taken."""
MOST_SHOWN = 500
"""Maximum kinds of disclosures that are remembered."""
ASKED = "asked"
"""How a decision was made that was not recycled."""


@dataclass(frozen=True, slots=True)
class Line:
    """A decision as it was recorded."""

    number: int
    """Counts everything that was heard since the console runs."""
    at: float
    writer: str
    request: Request
    decision: Decision
    release: str = ""
    """The hash of the release by which it was decided, if that is known."""

    @property
    def how(self) -> str:
        """Whether it was asked for, or by which kind of recycling it was inferred."""
        inferred = self.decision.inferred
        return ASKED if inferred is None else str(inferred.method)


@dataclass(slots=True)
class Second:
    """What was heard within one second."""

    at: int
    allowed: int = 0
    denied: int = 0
    failed: int = 0
    how: Counter[str] = field(default_factory=Counter)
    """Decisions by how they were made."""
    latencies: Latencies = field(default_factory=Latencies)
    """How long PDPs took."""

    @property
    def heard(self) -> int:
        return self.allowed + self.denied + self.failed


@dataclass(frozen=True, slots=True)
class Shown:
    """Somebody was shown some attributes of events of a type, live or replayed, under some rules."""

    subject: str
    type: str
    shown: str
    """The type as which they were sent."""
    attributes: tuple[str, ...]
    rules: tuple[str, ...]
    replayed: bool


@dataclass(slots=True)
class Times:
    """How often that was, and when last."""

    events: int = 0
    last: float = 0.0


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
        self.policies: Counter[str] = Counter()
        """Decisions by the policies that determined them."""
        self.shown: dict[Shown, Times] = {}
        """What was disclosed to whom, what was disclosed last at the end."""
        self._seconds: deque[Second] = deque(maxlen=SECONDS)
        self._counted: dict[str, tuple[int, ...]] = {}

    def take(self, records: Iterable[AuditRecord], now: float) -> None:
        for record in records:
            self.lost += record.dropped
            if record.disclosed is not None:
                self._disclose(record.disclosed, record.at)
            if record.request is not None and record.decision is not None:
                self._add(record, record.request, record.decision, now)

    def _add(self, record: AuditRecord, request: Request, decision: Decision, now: float) -> None:
        self.heard += 1
        line = Line(self.heard, record.at, record.writer, request, decision, record.release.hex())
        self.lines.append(line)
        self.how[line.how] += 1
        self.policies.update(decision.policies)
        second = self._second(now)
        second.how[line.how] += 1
        if decision.allowed:
            second.allowed += 1
            return
        self.reasons[str(decision.reason)] += 1
        if decision.decided:
            second.denied += 1
        else:
            second.failed += 1

    def _disclose(self, told: Disclosure, at: float) -> None:
        kind = Shown(told.subject, told.type, told.shown, told.attributes, told.rules, told.replayed)
        times = self.shown.pop(kind, None) or Times()
        times.events += len(told.events)
        times.last = max(times.last, at)
        self.shown[kind] = times
        if len(self.shown) > MOST_SHOWN:
            del self.shown[next(iter(self.shown))]

    def count(self, members: Mapping[str, tuple[int, ...]], now: float) -> None:
        """Take how many answers of each member took how long so far; what has come since the last time is of now."""
        for name, counts in members.items():
            before = self._counted.get(name)
            if counts == before:
                continue
            self._counted[name] = counts
            if before is None or len(before) != len(counts):
                continue  # what was before this console is not of now
            more = [new - old for new, old in zip(counts, before, strict=True)]
            self._second(now).latencies.absorb(
                counts if min(more) < 0 else more
            )  # it may have been restarted

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


def shares(seconds: list[Second], how: str) -> list[float]:
    """The share of decisions that were made so, around each second."""
    return [
        sum(each.how[how] for each in window) / max(1, sum(each.heard for each in window))
        for window in _windows(seconds)
    ]


def percentiles(seconds: list[Second], share: float) -> list[float]:
    """The time within which PDPs gave this share of their answers, in seconds, around each second; 0 for none."""
    found = list[float]()
    for window in _windows(seconds):
        together = Latencies()
        for each in window:
            together.absorb(each.latencies.counts)
        found.append(together.quantile(share))
    return found


def _windows(seconds: list[Second]) -> Iterator[list[Second]]:
    """Each second with those before it."""
    for end in range(1, len(seconds) + 1):
        yield list(islice(seconds, max(0, end - SMOOTHED_SECONDS), end))
