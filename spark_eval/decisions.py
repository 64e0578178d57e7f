"""Decisions inside Spark: boards of subjects against classes of permissions, a tile of each to a task.

A tile is computed without a word to any other, so the same job runs on one core and on a cluster. What comes out is
either the decisions themselves, 32,768 subjects to a row as Spark's own bitmap functions have them, or their numbers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_eval.board import Board, Rulings, Turned, Words
from spark_eval.column import Codes
from spark_eval.masks import Side
from spark_eval.plan import Plan
from spark_eval.schemas import COUNTS, DECISIONS

BUCKET = 32_768
"""Subjects in a row: as many as a bitmap of Spark has bits."""
BLOCK = 4 * BUCKET
"""Subjects in a tile."""
BATCH = 64
"""Classes whose decisions are handed over at once."""

Form: TypeAlias = Literal["bitmaps", "counts"]
ClassIds: TypeAlias = npt.NDArray[np.int64]


class Tile(NamedTuple):
    """Subjects and classes from a first to before a last."""

    subjects: tuple[int, int]
    classes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Decisions:
    """Everything that is to be decided: subjects turned over, and classes of permissions with their names."""

    plan: Plan
    subjects: Turned
    classes: Side
    ids: ClassIds
    sizes: Codes | None = None
    """How many subjects each one stands for, where they are classes too; then they can only be counted."""

    def pick(self, classes: Codes) -> Decisions:
        """Those about some of the classes."""
        return replace(self, classes=self.classes.take(classes), ids=self.ids[classes])

    def tiles(self, workers: int) -> list[Tile]:
        return make_tiles(self.subjects.count, self.classes.rows, workers)

    def frame(self, spark: SparkSession, form: Form, workers: int) -> DataFrame:
        """The decisions, or their numbers, as a DataFrame."""
        bare = replace(self, plan=self.plan.bare())
        schema = DECISIONS if form == "bitmaps" else COUNTS
        return tile_frame(spark, partial(bare.batches, form=form), self.tiles(workers), schema)

    def batches(self, tile: Tile, form: Form) -> Iterator[pa.RecordBatch]:
        """What comes of a tile."""
        first, last = tile.classes
        board = Board(self.plan, self.subjects.block(*tile.subjects), self.classes.take(slice(first, last)))
        if form == "bitmaps":
            make = partial(_bitmaps, first=tile.subjects[0] // BUCKET)
        else:
            make = partial(_counts, slices=_slices(self.sizes, tile.subjects))
        for start in range(first, last, BATCH):
            numbers = range(start, min(start + BATCH, last))
            rulings = [board.rulings(number - first) for number in numbers]
            yield make(self.ids[numbers.start : numbers.stop], rulings)


def make_tiles(subjects: int, classes: int, workers: int) -> list[Tile]:
    """Tiles that cover everything: blocks of subjects, and as many parts of the classes as keep the workers busy."""
    starts = range(0, subjects, BLOCK)
    parts = max(1, min(classes, -(-workers // len(starts))))
    bounds = [classes * n // parts for n in range(parts + 1)]
    return [
        Tile((start, min(start + BLOCK, subjects)), part)
        for part in itertools.pairwise(bounds)
        for start in starts
    ]


def tile_frame(
    spark: SparkSession,
    compute: Callable[[Tile], Iterable[pa.RecordBatch]],
    tiles: list[Tile],
    schema: pa.Schema,
) -> DataFrame:
    """What comes of all tiles, each computed by a task of its own."""
    numbers = spark.range(0, len(tiles), 1, len(tiles))
    return numbers.mapInArrow(TileWork(compute, tiles), from_arrow_schema(schema))


@dataclass(frozen=True, slots=True)
class TileWork:
    """What a task does: the tiles whose numbers it is given."""

    compute: Callable[[Tile], Iterable[pa.RecordBatch]]
    tiles: Sequence[Tile]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.compute(self.tiles[number])


def workers_of(spark: SparkSession) -> int:
    """How many tasks can run at once; a guess where a remote session does not say."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return 8


def class_ids(plan: Plan, classes: Side) -> ClassIds:
    """A name for each class that stays the same from run to run, as long as the same decides about it."""
    names = [
        _digest((bit.effect, bit.rank, bit.clause.subject, bit.clause.join, bit.clause.ask))
        for bit in plan.bits
    ]
    held = np.unpackbits(classes.masks, axis=1, bitorder="little")[:, : len(names)]
    compared = [[_digest(value) for value in keys.values] for keys in classes.keys]
    joins = {join: number for number, join in enumerate(plan.joins)}
    ids = np.empty(classes.rows, np.int64)
    for row in range(classes.rows):
        bits = np.flatnonzero(held[row]).tolist()
        used = sorted(
            {joins[plan.bits[bit].clause.join] for bit in bits if plan.bits[bit].clause.join in joins}
        )
        parts = sorted(names[bit] for bit in bits) + [compared[n][classes.keys[n].codes[row]] for n in used]
        ids[row] = int.from_bytes(
            hashlib.blake2b(b"".join(parts), digest_size=8).digest(), "little", signed=True
        )
    return ids


def _digest(value: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(value), digest_size=16).digest()


def _bitmaps(ids: ClassIds, rulings: Sequence[Rulings], first: int) -> pa.RecordBatch:
    """A row for each class and bucket. The last bitmap is filled up: bitmaps are all of one length."""
    allowed, asking = (_buckets([each[n] for each in rulings]) for n in (0, 1))
    buckets = allowed.shape[1]
    allows, asks = (
        np.bitwise_count(each).sum(axis=2, dtype=np.int64).reshape(-1) for each in (allowed, asking)
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.repeat(ids, buckets)),
            pa.array(np.tile(np.arange(first, first + buckets, dtype=np.int32), len(ids))),
            _binary(allowed),
            pc.if_else(pa.array(asks > 0), _binary(asking), pa.scalar(None, pa.binary())),
            pa.array(allows),
            pa.array(asks),
        ],
        schema=DECISIONS,
    )


def _buckets(several: Sequence[Words]) -> npt.NDArray[np.uint8]:
    """Sets of subjects as bytes: class by bucket by 4,096."""
    size = BUCKET // 64
    buckets = -(-len(several[0]) // size)
    words = np.zeros((len(several), buckets * size), np.uint64)
    words[:, : len(several[0])] = several
    return words.view(np.uint8).reshape(len(several), buckets, BUCKET // 8)


def _binary(bitmaps: npt.NDArray[np.uint8]) -> pa.Array:
    rows = bitmaps.shape[0] * bitmaps.shape[1]
    fixed = pa.Array.from_buffers(pa.binary(BUCKET // 8), rows, [None, pa.py_buffer(bitmaps)])
    return fixed.cast(pa.binary())


def _counts(ids: ClassIds, rulings: Sequence[Rulings], slices: Sequence[Words]) -> pa.RecordBatch:
    columns = []
    for n in (0, 1):
        words = np.stack([each[n] for each in rulings])
        counts = (
            np.bitwise_count(words & each).sum(axis=1, dtype=np.int64) << bit
            for bit, each in enumerate(slices)
        )
        columns.append(pa.array(sum(counts, np.zeros(len(ids), np.int64))))
    return pa.RecordBatch.from_arrays([pa.array(ids), *columns], schema=COUNTS)


def _slices(sizes: Codes | None, subjects: tuple[int, int]) -> list[Words]:
    """For each binary digit of the sizes, the subjects that have it: so sums of sizes are sums of bit counts."""
    start, stop = subjects
    length = -(-(stop - start) // 64) * 64
    if sizes is None:
        return [np.full(length // 64, ~np.uint64(0))]
    padded = np.zeros(length, np.int64)
    padded[: stop - start] = sizes[start:stop]
    digits = range(max(1, int(padded.max()).bit_length()))
    return [
        np.packbits((padded >> bit & 1).astype(np.uint8), bitorder="little").view(np.uint64) for bit in digits
    ]


def count(words: Words) -> int:
    """How many subjects are in the set."""
    return int(np.bitwise_count(words).sum())
