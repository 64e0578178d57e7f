"""The audit stream as a streaming source of Spark: offsets are the stream's own numbers of pages.

A range of numbers always gives the same pages, since the stream only grows and is cut off at the beginning. So a
batch that is computed again, because whoever computed it died, is the same batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bus.audit import AuditStore, Page, SignedHead, read_head
from bus.link import connect
from spark_eval.audited import page_batch
from spark_eval.schemas import AUDITED

NAME = "authfabric-audit"
PAGES_IN_BATCH = 4096
PAGES_IN_TASK = 1024

Offset = dict[str, int]


class AuditSource(DataSource):
    """`spark.readStream.format(NAME).option("url", ...).option("domain", ...)`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow_schema(AUDITED)

    def streamReader(self, schema: StructType) -> AuditReader:  # noqa: N802 - Spark's word
        most = int(self.options.get("pages", PAGES_IN_BATCH))
        return AuditReader(self.options["url"], self.options["domain"], most)


class AuditReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Pages after a number, up to another."""

    def __init__(self, url: str, domain: str, most: int) -> None:
        self._url = url
        self._domain = domain
        self._most = most
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"after": self._kept().start - 1}

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
