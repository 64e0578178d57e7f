"""The folder of precomputed decisions: written whole or not at all, and what a later run takes over from it.

| file | holds |
| --- | --- |
| `manifest.json` | what was computed from what, and how much it is |
| `subjects.parquet` | the subjects, and the place of each in the bitmaps |
| `permissions.parquet` | each object with each action, and the class it belongs to |
| `decisions/part=N/` | for each class, who is allowed and who must ask |
| `decisions.snapshot` | the same for caches, signed |
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from sdp_cache.snapshots import Origin
from spark_eval.entities import Before, Gathered, Marks, Population, decode, encode_keys, encode_masks
from spark_eval.errors import EvaluationError
from spark_eval.evaluation import BUCKET, ClassIds, Decisions, Tile
from spark_eval.runtime import map_rows
from spark_eval.schemas import DECISIONS, PERMISSIONS, ROWS, SUBJECTS

VERSION = 2
MANIFEST, SNAPSHOT = "manifest.json", "decisions.snapshot"
PEOPLE, THINGS, DECIDED = "subjects.parquet", "permissions.parquet", "decisions"
MAX_CELLS = 4096
"""Maximum changed bitmaps that are computed one by one; beyond, all are computed anew, in Spark."""


class DamagedOutput(EvaluationError):
    """A folder of precomputed decisions that a later run cannot go on from."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(f"`{folder}` is damaged: {problem}; compute it anew with `--full`")
        self.folder = folder
        self.problem = problem


class Manifest(msgspec.Struct, frozen=True):
    """What was computed from what, and how much it is."""

    origin: Origin
    subjects: int
    objects: int
    actions: tuple[str, ...]
    classes: int
    parts: int
    allows: int
    asks: int
    marks: Marks
    version: int = VERSION

    @property
    def decisions(self) -> int:
        return self.subjects * self.objects * len(self.actions)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier output."""

    folder: Path
    manifest: Manifest
    before: Before
    ids: frozenset[int]
    """Its classes."""


def read_earlier(folder: Path) -> Earlier | None:
    """What the folder holds; None if nothing that this version could go on from. Raises DamagedOutput."""
    if not (folder / MANIFEST).is_file():
        return None
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        if manifest.version != VERSION:
            return None
        people, things = pq.read_table(folder / PEOPLE), pq.read_table(folder / THINGS)
        joins = len(manifest.marks.joins)
        subjects = Gathered(people.column("subject").to_pylist(), decode(people, joins))
        objects = things.column("object").combine_chunks()[:: len(manifest.actions)].to_pylist()
        before = Before(subjects, Gathered(objects, decode(things, joins)), manifest.marks)
        return Earlier(folder, manifest, before, frozenset(things.column("class").to_pylist()))
    except (OSError, ValueError, msgspec.DecodeError, pa.ArrowException, KeyError) as error:
        raise DamagedOutput(folder, str(error).splitlines()[0]) from error


def write_names(
    folder: Path, population: Population, classes: ClassIds, earlier: Earlier | None = None
) -> None:
    """The subjects and the permissions, each with what the next run needs of it. `classes` is for each permission."""
    if earlier is not None and population.subjects is earlier.before.subjects:
        _link(earlier.folder / PEOPLE, folder / PEOPLE)
    else:
        _write_names(folder / PEOPLE, _people(population.subjects), SUBJECTS)
    _write_names(folder / THINGS, _things(population, classes), PERMISSIONS)


def _people(subjects: Gathered) -> list[object]:
    places = np.arange(len(subjects.names))
    return [subjects.names, places, encode_masks(subjects.side), encode_keys(subjects.side)]


def _things(population: Population, classes: ClassIds) -> list[object]:
    permissions, actions = population.permissions, len(population.actions)
    return [
        np.repeat(np.array(permissions.names, object), actions),
        list(population.actions) * len(permissions.names),
        classes,
        encode_masks(permissions.side),
        encode_keys(permissions.side),
    ]


def _write_names(path: Path, columns: list[object], schema: pa.Schema) -> None:
    arrays = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="zstd")


def totals(folder: Path, classes: ClassIds) -> tuple[int, int]:
    """How many decisions allow, and how many ask, over all permissions, whose classes are given."""
    found = pq.read_table(folder / DECIDED, columns=["class", "allows", "asks"])
    sums = found.group_by("class").aggregate([("allows", "sum"), ("asks", "sum")])
    ids, sizes = np.unique(classes, return_counts=True)
    weights = sizes[np.searchsorted(ids, sums.column("class").to_numpy())]
    allows, asks = (
        int((sums.column(f"{name}_sum").to_numpy() * weights).sum()) for name in ("allows", "asks")
    )
    return allows, asks


def changed_buckets(population: Population, before: Before) -> list[int]:
    """The buckets of subjects about whom something is different that decisions go by."""
    now, then = population.subjects, before.subjects
    buckets = range(-(-len(now.names) // BUCKET))
    if population.marks.subjects and population.marks.subjects == before.marks.subjects:
        return []
    if (
        population.marks.subject_bits != before.marks.subject_bits
        or population.marks.joins != before.marks.joins
    ):
        return list(buckets)
    return [
        bucket for bucket in buckets if not _same(now, then, slice(bucket * BUCKET, (bucket + 1) * BUCKET))
    ]


def _same(now: Gathered, then: Gathered, rows: slice) -> bool:
    return (
        now.names[rows] == then.names[rows]
        and np.array_equal(now.side.masks[rows], then.side.masks[rows])
        and encode_keys(now.side.take(rows)).equals(encode_keys(then.side.take(rows)))
    )


def write_changes(folder: Path, decisions: Decisions, earlier: Earlier, buckets: list[int]) -> bool:
    """Write the decisions by taking over what is still right, and computing the rest here.

    False if so much has changed, in new classes and in these buckets, that they are better computed anew.
    """
    new = np.flatnonzero(~np.isin(decisions.ids, list(earlier.ids)))
    old = np.flatnonzero(np.isin(decisions.ids, list(earlier.ids)))
    everyone = range(-(-decisions.subjects.count // BUCKET))
    if len(new) * len(everyone) + len(old) * len(buckets) > MAX_CELLS:
        return False
    batches = [*_compute(decisions.pick(new), everyone), *_compute(decisions.pick(old), buckets)]
    computed = pa.Table.from_batches(batches, DECISIONS)
    lost = earlier.ids.difference(decisions.ids.tolist())
    for part in range(earlier.manifest.parts):
        place = folder / DECIDED / f"part={part}"
        added = computed.filter(
            pa.array(_parts(computed.column("class").to_numpy(), earlier.manifest.parts) == part)
        )
        gone = [each for each in lost if each % earlier.manifest.parts == part]
        _write_part(place, earlier.folder / DECIDED / place.name, added, gone, buckets)
    return True


def _compute(decisions: Decisions, buckets: Iterable[int]) -> Iterator[pa.RecordBatch]:
    if decisions.classes.rows:
        for bucket in buckets:
            subjects = (bucket * BUCKET, min((bucket + 1) * BUCKET, decisions.subjects.count))
            yield from decisions.batches(Tile(subjects, (0, decisions.classes.rows)), "bitmaps")


def _write_part(place: Path, before: Path, added: pa.Table, gone: list[int], buckets: list[int]) -> None:
    """A part as it was, without what is gone or computed anew, and with what is added."""
    files = sorted(before.glob("*.parquet"))
    place.mkdir(parents=True)
    if not len(added) and not gone and not buckets:
        for file in files:
            _link(file, place / file.name)
        return
    kept = DECISIONS.empty_table()
    if files:
        kept = pa.concat_tables(pq.ParquetFile(file).read().cast(DECISIONS) for file in files)
        stale = pc.or_(
            pc.is_in(kept.column("class"), pa.array(gone, pa.int64())),
            pc.is_in(kept.column("bucket"), pa.array(buckets, pa.int32())),
        )
        kept = kept.filter(pc.invert(stale))
    if len(kept) + len(added):
        pq.write_table(pa.concat_tables([kept, added]), place / "changed.parquet", compression="zstd")


def _link(file: Path, place: Path) -> None:
    """The same file in another folder; a copy where the file system has no links."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copy2(file, place)


def _parts(ids: ClassIds, parts: int) -> ClassIds:
    """In which part the decisions of each class are."""
    return ids % parts


def read_rows(spark: SparkSession, folder: Path | str) -> DataFrame:
    """Subject, object, action and effect, allow or ask, for all that is not denied."""
    folder = Path(folder)
    names = pq.read_table(folder / PEOPLE, columns=["subject"]).column("subject").combine_chunks()
    permissions = spark.read.parquet(str((folder / THINGS).absolute())).select("object", "action", "class")
    decided = spark.read.parquet(str((folder / DECIDED).absolute())).select(
        "class", "bucket", "allowed", "asking"
    )
    columns = ("object", "action", "bucket", "allowed", "asking")
    return map_rows(permissions.join(decided, "class").select(*columns), RowWork(names), ROWS)


@dataclass(frozen=True, slots=True)
class RowWork:
    """What a task does: a row for each bit that is set."""

    names: pa.StringArray

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                for effect, bitmap in (("allow", row["allowed"]), ("ask", row["asking"])):
                    if bitmap is not None:
                        yield self._rows(row["object"], row["action"], effect, row["bucket"] * BUCKET, bitmap)

    def _rows(self, object_: str, action: str, effect: str, first: int, bitmap: bytes) -> pa.RecordBatch:
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
        subjects = self.names.take(pa.array(first + np.flatnonzero(bits)))
        same = [pa.repeat(pa.scalar(each), len(subjects)) for each in (object_, action, effect)]
        return pa.RecordBatch.from_arrays([subjects, *same], schema=ROWS)
