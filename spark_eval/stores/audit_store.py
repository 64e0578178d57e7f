"""The audit stream as a streaming source of Spark: offsets are the stream's own numbers of pages.

A range of numbers always gives the same pages, since the stream only grows and is cut off at the beginning. So a
batch that is computed again, because whoever computed it died, is the same batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from authz import Decision, Request
from authz.request import Attributes
from bus.audit import AuditStore, Page, SignedHead, read_head, read_record
from bus.nats import connect
from spark_eval.schemas import AUDITED

NAME = "authfabric-audit"
PAGES_IN_BATCH = 4096
PAGES_IN_TASK = 1024

Offset = dict[str, int]


class AuditSource(DataSource):
    """`spark.readStream.format(NAME).option("url", ...).option("domain", ...)`.

    All that is kept is read; with the option `from` as `now`, what comes from then on.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(AUDITED)

    def streamReader(self, schema: StructType) -> AuditReader:  # noqa: N802 - Spark's word
        most = int(self.options.get("pages", PAGES_IN_BATCH))
        late = self.options.get("from") == "now"
        return AuditReader(self.options["url"], self.options["domain"], most, late)


class AuditReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Pages after a number, up to another."""

    def __init__(self, url: str, domain: str, most: int, late: bool = False) -> None:
        self._url = url
        self._domain = domain
        self._most = most
        self._late = late
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        kept = self._kept()
        return {"after": (kept.stop if self._late else kept.start) - 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._kept().stop - 1

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        last = self._kept().stop - 1 if self._target is None else self._target
        if isinstance(limit, ReadMaxRows):
            last = min(last, start["after"] + limit.max_rows)
        return {"after": max(last, start["after"])}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        first, last = start["after"], end["after"]
        return [
            PageRange(after, min(after + PAGES_IN_TASK, last)) for after in range(first, last, PAGES_IN_TASK)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PageRange)
        yield from map(page_batch, asyncio.run(self._pages(partition)))

    async def _pages(self, wanted: PageRange) -> list[Page]:
        async with connect(self._url, name="audit") as bus:
            pages = []
            store = AuditStore(bus, self._domain, create=False)
            async with aclosing(store.read(wanted.after)) as kept:
                async for page in kept:
                    if page.number > wanted.last:
                        break
                    pages.append(page)
            return pages

    def _kept(self) -> range:
        return asyncio.run(look(self._url, self._domain)).kept


class PageRange(InputPartition):
    """The pages after a number, up to a last."""

    def __init__(self, after: int, last: int) -> None:
        super().__init__((after, last))
        self.after = after
        self.last = last


@dataclass(frozen=True, slots=True)
class Stand:
    """How far writers say they have come, and which pages are kept; the former was read first."""

    heads: tuple[SignedHead, ...]
    kept: range


async def look(url: str, domain: str) -> Stand:
    """How the stream stands. Raises what the bus raises."""
    async with connect(url, name="audit", connect_seconds=2.0) as bus:
        store = AuditStore(bus, domain, create=False)
        heads = [read_head(data, writer) async for writer, data in store.heads()]
        return Stand(tuple(each for each in heads if each is not None), await store.kept())


Row = dict[str, object]


def page_batch(page: Page) -> pa.RecordBatch:
    """The records of a page; of one that cannot be read, a row without a record."""
    rows = [_row(page, place, record) for place, record in enumerate(page.records)]
    return pa.RecordBatch.from_pylist(
        rows or [{"page": page.number, "place": 0, "writer": page.writer}], AUDITED
    )


def _row(page: Page, place: int, encoded: bytes) -> Row:
    row: Row = {"page": page.number, "place": place, "writer": page.writer, "record": encoded}
    record = read_record(encoded)
    if record is None:
        return row
    row |= {"sequence": record.sequence, "time": int(record.at * 1e6), "dropped": record.dropped}
    if record.request is not None and record.decision is not None:
        row |= _request(record.request) | _decision(record.decision)
    return row


def _request(request: Request) -> Row:
    row: Row = {"context": _json(request.context)}
    for kind, entity in (
        ("subject", request.subject),
        ("object", request.object),
        ("action", request.action),
    ):
        row |= {kind: entity.id, f"{kind}_attributes": _json(entity.attributes)}
    return row


def _decision(decision: Decision) -> Row:
    inferred = decision.inferred
    return {
        "effect": decision.effect,
        "reason": str(decision.reason),
        "policies": list(decision.policies),
        "epoch": decision.epoch,
        "inferred": None if inferred is None else inferred.method,
    }


def _json(attributes: Attributes) -> str | None:
    return msgspec.json.encode(attributes).decode() if attributes else None
