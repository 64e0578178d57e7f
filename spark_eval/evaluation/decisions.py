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

from spark_eval.columns import Codes
from spark_eval.evaluation.mask_algebra import Board, Rulings, Turned, Words
from spark_eval.plans import Plan, Side
from spark_eval.runtime import map_rows
from spark_eval.schemas import COUNTS, DECISIONS

BUCKET = 32_768
"""Subjects in a row: as many as a bitmap of Spark has bits."""
BLOCK = 4 * BUCKET
"""Subjects in a tile."""
BATCH = 64 * BLOCK // 64
"""Words of decisions, 64 subjects in each, that are made at once: they stay in the processor's cache."""

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

    @property
    def size(self) -> tuple[int, int]:
        """How many subjects, or classes of them, and how many classes of permissions."""
        return self.subjects.count, self.classes.rows

    @property
    def schema(self) -> pa.Schema:
        """Of what is counted."""
        return COUNTS

    def tallies(self, tile: Tile) -> Iterator[pa.RecordBatch]:
        """How many are allowed and how many must ask, class by class."""
        return self.batches(tile, "counts")

    def bare(self) -> Decisions:
        """The same without what tasks do not need: it is sent to each of them."""
        return replace(self, plan=self.plan.bare())

    def pick(self, classes: Codes) -> Decisions:
        """Those about some of the classes."""
        return replace(self, classes=self.classes.take(classes), ids=self.ids[classes])

    def tiles(self, workers: int) -> list[Tile]:
        return make_tiles(self.subjects.count, self.classes.rows, workers)

    def frame(self, spark: SparkSession, workers: int) -> DataFrame:
        """The decisions as a DataFrame."""
        tiles = self.tiles(workers)
        work = TileWork(partial(self.bare().batches, form="bitmaps"), tiles)
        return map_rows(spark.range(0, len(tiles), 1, len(tiles)), work, DECISIONS)

    def batches(self, tile: Tile, form: Form) -> Iterator[pa.RecordBatch]:
        """What comes of a tile."""
        first, last = tile.classes
        board = Board(self.plan, self.subjects.block(*tile.subjects), self.classes.take(slice(first, last)))
        if form == "bitmaps":
            make = partial(_bitmaps, first=tile.subjects[0] // BUCKET)
        else:
            make = partial(_counts, digits=_digits(self.sizes, tile.subjects))
        most = max(1, BATCH // board.words.shape[1])
        for start in range(first, last, most):
            stop = min(start + most, last)
            yield make(self.ids[start:stop], board.rulings(start - first, stop - first))


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


def _bitmaps(ids: ClassIds, rulings: Rulings, first: int) -> pa.RecordBatch:
    """A row for each class and bucket. The last bitmap is filled up: bitmaps are all of one length."""
    allowed, asking = map(_buckets, rulings)
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


def _buckets(several: Words) -> Words:
    """Sets of subjects, cut: class by bucket by 512 words."""
    size = BUCKET // 64
    buckets = -(-several.shape[1] // size)
    words = np.zeros((len(several), buckets * size), np.uint64)
    words[:, : several.shape[1]] = several
    return words.reshape(len(several), buckets, size)


def _binary(bitmaps: Words) -> pa.Array:
    rows = bitmaps.shape[0] * bitmaps.shape[1]
    fixed = pa.Array.from_buffers(pa.binary(BUCKET // 8), rows, [None, pa.py_buffer(bitmaps)])
    return fixed.cast(pa.binary())


def _counts(ids: ClassIds, rulings: Rulings, digits: Sequence[Digit]) -> pa.RecordBatch:
    columns = [pa.array(_weigh(words, digits)) for words in rulings]
    return pa.RecordBatch.from_arrays([pa.array(ids), *columns], schema=COUNTS)


def _weigh(words: Words, digits: Sequence[Digit]) -> Codes:
    """How many subjects each set stands for."""
    totals = np.zeros(len(words), np.int64)
    for place, digit in enumerate(digits):
        having = words[:, digit.start : digit.start + len(digit.words)] & digit.words
        totals += np.bitwise_count(having).sum(axis=1, dtype=np.int64) << place
    return totals


class Digit(NamedTuple):
    """The subjects whose sizes have a binary digit: so sums of sizes are sums of bit counts."""

    start: int
    """Words before it have none of them."""
    words: Words


def _digits(sizes: Codes | None, subjects: tuple[int, int]) -> list[Digit]:
    """For each binary digit of the sizes, the subjects that have it. Large classes are few, and mostly come first."""
    start, stop = subjects
    length = -(-(stop - start) // 64) * 64
    if sizes is None:
        return [Digit(0, np.full(length // 64, ~np.uint64(0)))]
    padded = np.zeros(length, np.int64)
    padded[: stop - start] = sizes[start:stop]
    return [_digit(padded >> place & 1) for place in range(int(padded.max()).bit_length())]


def _digit(held: Codes) -> Digit:
    words = np.packbits(held.astype(np.uint8), bitorder="little").view(np.uint64)
    (used,) = np.nonzero(words)
    first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0)
    return Digit(first, words[first:last])


def count(words: Words) -> int:
    """How many subjects are in the set."""
    return int(np.bitwise_count(words).sum())
