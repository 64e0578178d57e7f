"""Counting over all tiles: in this process if the decisions are few, and on Spark otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from spark_eval.evaluation.decisions import Tile, TileWork, make_tiles, workers_of
from spark_eval.runtime import Sessions, Steps, collect_rows

HERE = 2**30
"""Up to this many decisions are counted in this process; for more it pays to start Spark."""
LEAST = 2**25
"""Decisions for one task: fewer take no longer than it takes to begin and end another."""


class Counting(Protocol):
    """What is to be counted, tile by tile."""

    @property
    def size(self) -> tuple[int, int]:
        """How many subjects, and how many classes of permissions."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Of the tallies."""
        ...

    def tallies(self, tile: Tile) -> Iterable[pa.RecordBatch]: ...


def count_tiles(
    counting: Counting, words: str, session: Sessions, steps: Steps, here: int = HERE
) -> pa.Table:
    """The tallies of all tiles. `words` tell whoever waits what is being done."""
    subjects, classes = counting.size
    if subjects * classes > here:
        spark = session()
        tasks = min(workers_of(spark), -(-subjects * classes // LEAST))
        tiles = make_tiles(subjects, classes, tasks)
        with steps.watch(spark, words, len(tiles)):
            return collect_rows(spark, TileWork(counting.tallies, tiles), len(tiles), counting.schema)
    tiles = make_tiles(subjects, classes, 1)
    batches: list[pa.RecordBatch] = []
    with steps.step(words, len(tiles)) as advance:
        for tile in tiles:
            batches += counting.tallies(tile)
            advance(1)
    return pa.Table.from_batches(batches, counting.schema)
