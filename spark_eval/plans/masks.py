"""Entities by mask: which bits of a plan match each subject, or each permission, and what joins compare of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from authz.predicate import Path, Predicate, paths
from spark_eval.columns import Codes, Evaluator, Outcomes, Table
from spark_eval.plans.plan import Plan
from spark_eval.plans.split import Part, part_of

Masks: TypeAlias = npt.NDArray[np.uint8]
"""A row for each entity; its bits from the lowest of the first byte are those of the plan."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What a join compares of each row: values by number, and the number of each row."""

    codes: Codes
    values: Sequence[tuple[object, ...]]

    def take(self, rows: Codes | slice) -> Keys:
        return Keys(self.codes[rows], self.values)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of all decisions: the subjects, or the permissions."""

    masks: Masks
    keys: tuple[Keys, ...] = ()
    """For each join of the plan."""

    @property
    def rows(self) -> int:
        return len(self.masks)

    def take(self, rows: Codes | slice) -> Side:
        return Side(self.masks[rows], tuple(each.take(rows) for each in self.keys))

    def classes(self, plan: Plan) -> Classes:
        """The rows that differ in what decides about them."""
        codes = [
            np.where(self._joined(plan, join), each.codes, 0).astype("<i8")[:, None].view(np.uint8)
            for join, each in zip(plan.joins, self.keys, strict=True)
        ]
        first, members = _alike(np.hstack([self.masks, *codes]))
        return Classes(self.take(first), members)

    def _joined(self, plan: Plan, join: Predicate) -> Outcomes:
        """The rows with a bit that compares by this join."""
        bits = [bit.clause.join == join for bit in plan.bits]
        mask = np.packbits(np.array(bits), bitorder="little")
        joined: Outcomes = np.any(self.masks & mask, axis=1)
        return joined


@dataclass(frozen=True, slots=True)
class Classes:
    """Rows of which no two are alike, and which of them each row of the side is like."""

    side: Side
    members: Codes

    @property
    def sizes(self) -> Codes:
        return np.bincount(self.members, minlength=self.side.rows)


def _alike(rows: Masks) -> tuple[Codes, Codes]:
    """The first of each different row, and which of these each row is like."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    words = padded.view(np.uint64)
    # Numbers are looked up far quicker than rows; that two rows share one by chance is seen, and then rows are taken.
    mixed = np.zeros(len(rows), np.uint64)
    for column in words.T:
        mixed ^= column
        for shift, factor in _MIXERS:
            mixed ^= mixed >> shift
            mixed *= factor
    first, members = _distinct(pa.array(mixed))
    if not np.array_equal(words[first[members]], words):
        first, members = _distinct(pa.array([row.tobytes() for row in rows], pa.binary()))
    return first, members


def _distinct(values: pa.Array) -> tuple[Codes, Codes]:
    members = values.dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.zeros(int(members.max(initial=-1)) + 1, np.int64)
    first[members[::-1]] = np.arange(len(members))[::-1]
    return first, members


_MIXERS = tuple(
    (np.uint64(shift), np.uint64(factor))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
)
"""Those of SplitMix64. After both steps, a bit of one word has moved to places where no bit of the next undoes it."""


def width(bits: int) -> int:
    """Bytes of a mask, at least one."""
    return max(1, -(-bits // 8))


def evaluate(plan: Plan, table: Table, part: Part) -> Side:
    """The masks of a table of subjects, or of permissions (objects crossed with actions)."""
    evaluator = Evaluator(table)
    turned = np.zeros((width(len(plan.bits)), table.rows), np.uint8)
    for number, bit in enumerate(plan.bits):
        matches = evaluator.holds(getattr(bit.clause, part.value))
        turned[number >> 3] |= matches.view(np.uint8) << (number & 7)
    return Side(np.ascontiguousarray(turned.T), tuple(_keys(join, table, part) for join in plan.joins))


def key_paths(join: Predicate, part: Part) -> tuple[Path, ...]:
    """What a join compares of this side."""
    return tuple(dict.fromkeys(path for path in paths(join) if part_of(path) is part))


def _keys(join: Predicate, table: Table, part: Part) -> Keys:
    columns = [table.column(path) for path in key_paths(join, part)]
    distinct, codes = np.unique(np.stack([column.codes for column in columns]), axis=1, return_inverse=True)
    values = [
        tuple(column.values.objects[code] for column, code in zip(columns, row, strict=True))
        for row in distinct.T.tolist()
    ]
    return Keys(codes.reshape(-1), values)
