"""A large history read by many at once: each task of Spark counts the events of one part of the time by itself.

A task has the URL of the database and the key of the history, so both must be within reach of whoever runs tasks, and
for nobody else to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from authfabric.exposure.counting import Counts, count_by_reading, joined
from authfabric.exposure.evidence import Evidence, Question
from authfabric.exposure.views import find_views
from authz.extras import needing
from pdp.bundle import Bundle
from pubsub_core.history import HistoryKeys, HistoryStore, Span

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_eval.runtime import Sessions

PARTS = 64
"""Parts of the time, so that it matters little if most events are in a few of them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history is, and what opens it."""

    url: str
    secrets: tuple[bytes, ...]

    def open(self) -> HistoryStore:
        return HistoryStore(self.url, HistoryKeys.of(self.secrets))


@dataclass(frozen=True, slots=True)
class ShareTask:
    """Counts for some clients what was published in the parts of these numbers."""

    place: Place
    question: Question
    evidence: Evidence
    proposed: Bundle | None
    names: tuple[str, ...]
    parts: tuple[Span, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            found = [asyncio.run(self.count(self.parts[number])) for number in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_pydict({"counts": [msgspec.json.encode(each) for each in found]})

    async def count(self, part: Span) -> Counts:
        """Count what was published in one part."""
        with self.place.open() as store:
            async with find_views(self.question, self.evidence, self.proposed, self.names) as (
                views,
                accesses,
            ):
                return await count_by_reading(store, self.question, views, accesses, part)


def split(question: Question, store: HistoryStore, parts: int = PARTS) -> tuple[Span, ...]:
    """The time in question, in parts as long as each other where there are events."""
    kept, within = store.stats().get(question.type), question.within
    if kept is None or kept.oldest is None or kept.newest is None:
        return (within,)
    first, last = max(kept.oldest, within.start), min(kept.newest, within.end)
    if last <= first:
        return (within,)
    edges = [first + (last - first) * number / parts for number in range(1, parts)]
    return tuple(Span(*each) for each in pairwise([within.start, *edges, within.end]))


def count_on_spark(session: Sessions, task: ShareTask) -> Counts:
    """Have Spark count all parts."""
    with needing("spark"):
        import pyarrow as pa

        from spark_eval.runtime import collect_rows
    rows = collect_rows(session(), task, len(task.parts), pa.schema([("counts", pa.binary())]))
    found: Sequence[bytes] = rows.column("counts").to_pylist()
    return joined([msgspec.json.decode(each, type=Counts) for each in found])
