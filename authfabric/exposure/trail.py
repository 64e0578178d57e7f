"""What the audit trail tells: who asked to read events of a type, with which credential, and who was shown what."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec

from authfabric.exposure.evidence import Client
from authz import Entity
from bus.audit import AuditRecord, Disclosure
from pubsub_core.events import Event
from pubsub_core.history import Span
from pubsub_core.trust import Credential

READING = frozenset({"subscribe", "replay"})
CONNECT = "connect"
BROKERS = "/brokers/"

_TABLE = """
CREATE TABLE disclosed (
    subject TEXT, publisher BLOB, sequence INTEGER, time REAL, at REAL,
    PRIMARY KEY (subject, time, sequence, publisher)
) WITHOUT ROWID
"""


@dataclass(slots=True)
class Asked:
    """How often somebody was allowed to read events of the type, and when first and last."""

    count: int = 0
    first: float = float("inf")
    last: float = float("-inf")

    def note(self, at: float) -> None:
        self.count, self.first, self.last = self.count + 1, min(self.first, at), max(self.last, at)


@dataclass(slots=True)
class _Sightings:
    """The credentials that somebody was seen with, each from when on, and the brokers that it came to."""

    since: dict[bytes, tuple[float, Entity]] = field(default_factory=dict)
    brokers: set[str] = field(default_factory=set)


class Trail:
    """Takes records in. Events that were shown are kept in a file of the database, for there may be many."""

    def __init__(self, objects: Iterable[str], types: Iterable[str], attribute: str, within: Span) -> None:
        """`objects` are what PDPs call the type, `types` its names, `attribute` is the name of the attribute."""
        self.asked: dict[str, Asked] = {}
        self.dropped = 0
        """Decisions that were given and not recorded."""
        self._objects = frozenset(objects)
        self._types = frozenset(types)
        self._attribute = attribute
        self._within = within
        self._seen: dict[str, _Sightings] = {}
        self._tables = sqlite3.connect("")
        self._tables.execute(_TABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tables.close()

    def take(self, records: Iterable[AuditRecord]) -> None:
        for each in records:
            self.dropped += each.dropped
            self._decided(each)
            if each.disclosed is not None:
                self._disclosed(each.disclosed, each.at)

    def _decided(self, record: AuditRecord) -> None:
        request, decision = record.request, record.decision
        if request is None or decision is None:
            return
        who, thing, action = request.subject, request.object.id, request.action.id
        reads = action in READING and thing in self._objects
        if not reads and not (action == CONNECT and thing.startswith(BROKERS)):
            return
        seen = self._seen.setdefault(who.id, _Sightings())
        key = msgspec.json.encode(who, order="deterministic")
        seen.since[key] = min(record.at, seen.since.get(key, (record.at, who))[0]), who
        if not reads:
            seen.brokers.add(thing.removeprefix(BROKERS))
        elif decision.allowed:
            self.asked.setdefault(who.id, Asked()).note(record.at)

    def _disclosed(self, told: Disclosure, at: float) -> None:
        if told.type not in self._types or self._attribute not in told.attributes:
            return
        rows = [
            (told.subject, publisher, sequence, time, at)
            for publisher, sequence, time in told.events
            if self._within.start <= time < self._within.end
        ]
        self._tables.executemany("INSERT OR IGNORE INTO disclosed VALUES (?, ?, ?, ?, ?)", rows)

    def shown(self) -> dict[str, tuple[int, float, float]]:
        """To whom the attribute was shown: of how many events, and when first and last."""
        query = "SELECT subject, count(*), min(at), max(at) FROM disclosed GROUP BY subject"
        return {subject: (count, first, last) for subject, count, first, last in self._tables.execute(query)}

    def was_shown(self, subject: str, event: Event) -> bool:
        query = "SELECT 1 FROM disclosed WHERE subject = ? AND time = ? AND sequence = ? AND publisher = ?"
        found = self._tables.execute(query, (subject, event.time, event.sequence, event.publisher))
        return found.fetchone() is not None

    def clients(self, known: Sequence[Client]) -> Iterator[Client]:
        """Those that were seen with credentials, besides the ones known.

        One credential counts until the next that its holder was seen with; when the last one ended is not known.
        """
        had = {each.credential.name: each.credential.entity for each in known}
        for name, seen in self._seen.items():
            ordered = sorted(seen.since.values(), key=lambda each: each[0])
            starts = [float("-inf"), *(at for at, _ in ordered[1:])]
            ends = [*starts[1:], float("inf")]
            for (_, who), start, end in zip(ordered, starts, ends, strict=True):
                if who != had.get(name):
                    yield Client(_credential(who), Span(start, end), tuple(sorted(seen.brokers)))


def _credential(who: Entity) -> Credential:
    own = {name: value for name, value in who.attributes.items() if name not in ("key", "domain")}
    key, domain = str(who.attributes.get("key", "")), str(who.attributes.get("domain", ""))
    return Credential(key, who.id, domain, float("inf"), own)
