"""Audit: the stream of decisions into Parquet, each record once, and every chain followed to its end.

Spark numbers batches and notes in its checkpoint which pages are in each. A batch is written beside, read back,
verified and put in its place; then what is known of the chains is kept under the batch's number. Whoever dies in
between does the same batch again, from the chains as they stood before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bus.audit import Break, ChainVerifier, Verified
from spark_eval.entities import first_line
from spark_eval.errors import EvaluationError
from spark_eval.runtime import OutputExists, Sessions, Steps, write_whole
from spark_eval.stores import NAME, PAGES_IN_BATCH, AuditSource, Stand

DECISIONS, CHAINS, CHECKPOINT = "decisions", "chains", "checkpoint"
ATTEMPTS = 5
TOO_SLOW = ("connect back", "InitializationTimeout")
"""What Spark says of a Python process that takes over ten seconds to start, as one may on a busy machine."""


class ExportFailed(EvaluationError):
    """The stream could not be read or written on; what was written before is whole."""

    def __init__(self, output: Path, problem: str) -> None:
        super().__init__(f"the audit stream could not be written to `{output}`: {problem}")
        self.output = output
        self.problem = problem


class Chains(msgspec.Struct, frozen=True):
    """What is known after a batch: how far each writer's chain holds, and what nobody can know any more."""

    batch: int = -1
    through: int = 0
    """The last page that was read."""
    records: int = 0
    """All that were written so far."""
    whole: bool = True
    """Whether the stream still had its beginning when it was read first."""
    writers: dict[str, Verified] = {}
    starts: dict[str, int] = {}
    gaps: tuple[tuple[int, int], ...] = ()
    """Pages that were discarded before they were read, from a first to a last."""

    def verifier(self) -> ChainVerifier:
        found = ChainVerifier(self.whole)
        found.writers, found.starts = dict(self.writers), dict(self.starts)
        return found

    @property
    def broken(self) -> dict[str, Break]:
        return {name: each.broken for name, each in self.writers.items() if each.broken is not None}

    @property
    def holds(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.broken and not self.gaps


@dataclass(frozen=True, slots=True)
class AuditJob:
    """Which stream, and where it goes."""

    url: str
    domain: str
    output: Path
    stand: Stand
    """How the stream stood before."""
    pages: int = PAGES_IN_BATCH
    """In a batch, at most."""


def export_audit(job: AuditJob, session: Sessions, steps: Steps) -> Chains:
    """Write what is new, and tell how all chains stand. Raises ExportFailed."""
    known = _known(job.output)
    if job.stand.kept:
        _check_folder(job.output)
        _run(job, session(), steps)
        known = _known(job.output)
    chains = known.verifier()
    chains.finish(job.stand.heads, job.stand.kept.start)
    return msgspec.structs.replace(known, writers=chains.writers, starts=chains.starts)


def _run(job: AuditJob, spark: SparkSession, steps: Steps) -> None:
    spark.dataSource.register(AuditSource)
    options = {"url": job.url, "domain": job.domain, "pages": str(job.pages)}
    checkpoint = str((job.output / CHECKPOINT).absolute())
    with steps.step("writing decisions", 1):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                stream = spark.readStream.format(NAME).options(**options).load()
                writer = stream.writeStream.option("checkpointLocation", checkpoint)
                query = writer.foreachBatch(_Batches(job)).trigger(availableNow=True).start()
                query.awaitTermination()
                return
            except PySparkException as error:
                if attempt == ATTEMPTS or not any(words in str(error) for words in TOO_SLOW):
                    raise ExportFailed(job.output, first_line(error)) from error


def _check_folder(output: Path) -> None:
    if output.exists() and any(output.iterdir()) and not (output / CHECKPOINT).is_dir():
        raise OutputExists(output)


@dataclass(frozen=True, slots=True)
class _Batches:
    """What is done with each batch."""

    job: AuditJob

    def __call__(self, frame: DataFrame, number: int) -> None:
        output = self.job.output
        beside, place = output / f".batch-{number}", output / DECISIONS / f"batch={number}"
        before = _read_chains(output, number - 1)
        frame.coalesce(1).write.mode("overwrite").option("compression", "zstd").parquet(
            str(beside.absolute())
        )
        chains = follow(before, self.job.stand, beside, number)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        beside.rename(place)
        write_whole(output / CHAINS / f"{number}.json", msgspec.json.encode(chains))
        (output / CHAINS / f"{number - 2}.json").unlink(missing_ok=True)


def follow(before: Chains, stand: Stand, folder: Path, number: int) -> Chains:
    """The chains after the batch that is in the folder."""
    first = stand.kept.start
    if before.batch < 0:
        before = msgspec.structs.replace(before, whole=first == 1, through=first - 1)
    gap = ((before.through + 1, first - 1),) if first > before.through + 1 else ()
    chains, through, records = before.verifier(), max(before.through, first - 1), 0
    for page, writer, found in _pages(folder):
        chains.take(writer, found)
        through, records = page, records + len(found)
    return Chains(
        number,
        through,
        before.records + records,
        before.whole,
        chains.writers,
        chains.starts,
        before.gaps + gap,
    )


def _pages(folder: Path) -> Iterator[tuple[int, str, list[bytes]]]:
    """The pages as they were written, in order."""
    table = pq.read_table(folder, columns=["page", "place", "writer", "record"])
    rows = table.sort_by([("page", "ascending"), ("place", "ascending")]).to_pylist()
    for page, several in groupby(rows, itemgetter("page")):
        found = list(several)
        yield page, found[0]["writer"], [each["record"] for each in found if each["record"] is not None]


def _known(output: Path) -> Chains:
    """What is known after the newest batch."""
    numbers = [int(each.stem) for each in (output / CHAINS).glob("*.json")]
    return _read_chains(output, max(numbers, default=-1))


def _read_chains(output: Path, batch: int) -> Chains:
    path = output / CHAINS / f"{batch}.json"
    if batch < 0:
        return Chains()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Chains)
    except (OSError, msgspec.DecodeError) as error:
        raise ExportFailed(output, f"`{path}` is missing or damaged") from error
