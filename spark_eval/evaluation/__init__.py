"""Decisions in bulk: bitmap evaluation of a plan over a population, tile by tile on Spark."""

from spark_eval.evaluation.decisions import (
    BLOCK,
    BUCKET,
    ClassIds,
    Decisions,
    Tile,
    class_ids,
    count,
    workers_of,
)
from spark_eval.evaluation.joint import Joint
from spark_eval.evaluation.mask_algebra import (
    Board,
    Turned,
    Words,
    allowing,
    bits_of,
    equivalent,
    members,
    turn,
)
from spark_eval.evaluation.precomputed import Names, precomputation
from spark_eval.evaluation.tallies import HERE, count_tiles

__all__ = [
    "BLOCK", "BUCKET", "HERE", "Board", "ClassIds", "Decisions", "Joint", "Names", "Tile", "Turned", "Words",
    "allowing", "bits_of", "class_ids", "count", "count_tiles", "equivalent", "members", "precomputation",
    "turn", "workers_of",
]  # fmt: skip
