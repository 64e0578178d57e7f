"""The algebra: from masks of subjects and permissions to rulings, one bit for each subject, a permission at a time.

The subjects' masks are turned over, so that each bit of the plan is a row of as many bits as there are subjects. Whom
a permission is allowed to is then the disjunction of a few such rows, tier by tier. A bit with a join is as many rows
as there are values on the permissions' side: one for each value, with the subjects that stand in the relation to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from authz.predicate import TRUE
from pdp.source import Effect
from sdp_cache.snapshot import Ruling
from spark_eval.column import Codes, Outcomes
from spark_eval.masks import Masks, Side, width
from spark_eval.plan import Plan, Tier
from spark_eval.relation import Relation, relate

Words: TypeAlias = npt.NDArray[np.uint64]
"""A set of subjects: each has the bit of its row, counted from the lowest of the first word."""

PLAIN = np.array([-1])
"""The keys of a bit without a join."""


class Rulings(NamedTuple):
    """What the subjects may: those in neither set are denied."""

    allowed: Words
    asking: Words


class Step(NamedTuple):
    """The rows of the board by which a tier matches a permission."""

    tier: Tier
    rows: Codes


class Board:
    """Subjects against permissions, which are best given as classes."""

    def __init__(self, plan: Plan, subjects: Side, permissions: Side, most: int | None = None) -> None:
        """With `most`, joins that would make it more rows than these are left to the PDP, the largest first."""
        bits = range(len(plan.bits))
        held = _spread(permissions.masks, len(plan.bits))
        joins = [plan.joins.index(bit.clause.join) if bit.clause.join != TRUE else -1 for bit in plan.bits]
        relations = [
            relate(join, subjects.keys[n].values, permissions.keys[n].values)
            for n, join in enumerate(plan.joins)
        ]
        keys = [
            PLAIN if joins[bit] < 0 else np.unique(permissions.keys[joins[bit]].codes[held[:, bit]])
            for bit in bits
        ]
        unrelated = {bit for bit in bits if joins[bit] >= 0 and relations[joins[bit]] is None}
        asking = _give_up([len(each) for each in keys], unrelated, most)
        self._keys = [PLAIN if bit in asking else keys[bit] for bit in bits]
        self._joins = [-1 if bit in asking else joins[bit] for bit in bits]
        self.plan = plan
        self.asking = frozenset(asking)
        """Bits that the PDP must be asked about, though their policies do not look at the context."""
        self._first = np.cumsum([0, *map(len, self._keys)])
        self._tiers = [(tier, np.array(tier.bits)) for tier in plan.tiers(self.asking)]
        self._rows = self._find_rows(held, permissions)
        self._words = self._fill(subjects, relations)

    @property
    def bits(self) -> list[int]:
        """The bit of the plan that each row belongs to."""
        return [bit for bit, keys in enumerate(self._keys) for _ in keys]

    def steps(self, permission: int) -> list[Step]:
        """The rows that count for a permission, in order."""
        rows = self._rows[permission]
        steps = [Step(tier, rows[bits[rows[bits] >= 0]]) for tier, bits in self._tiers]
        return [step for step in steps if len(step.rows)]

    def rulings(self, permission: int) -> Rulings:
        """What the subjects may do with a permission.

        From the last tier to the first, two sets are kept: who may turn out allowed, and who denied, as far as
        is known without the context. Who is in both must ask.
        """
        size = self._words.shape[1]
        may_allow, may_deny = np.zeros(size, np.uint64), np.full(size, ~np.uint64(0))
        for tier, rows in reversed(self.steps(permission)):
            matching = self.matching(rows)
            gains, loses = (may_allow, may_deny) if tier.effect is Effect.ALLOW else (may_deny, may_allow)
            gains |= matching
            if tier.ruling is not Ruling.ASK:
                loses &= ~matching
        return Rulings(may_allow & ~may_deny, may_allow & may_deny)

    def matching(self, rows: Codes) -> Words:
        """The subjects in one of the rows."""
        words: Words = np.bitwise_or.reduce(self._words[rows], axis=0)
        return words

    def subject_masks(self) -> Masks:
        """For each subject the rows it is in, as a mask."""
        held = np.unpackbits(self._words.view(np.uint8), axis=1, bitorder="little")[:, : self._count]
        return np.packbits(held, axis=0, bitorder="little").T

    def permission_masks(self) -> Masks:
        """For each permission the rows that count for it, as a mask."""
        held = np.zeros((len(self._rows), 8 * width(int(self._first[-1]))), np.bool_)
        permissions, bits = np.nonzero(self._rows >= 0)
        held[permissions, self._rows[permissions, bits]] = True
        return np.packbits(held, axis=1, bitorder="little")

    def _find_rows(self, held: Outcomes, permissions: Side) -> Codes:
        """For each permission and bit the row that counts; -1 if the bit does not match."""
        rows = np.where(held, self._first[:-1], -1)
        for bit, join in enumerate(self._joins):
            if join >= 0:
                place = np.searchsorted(self._keys[bit], permissions.keys[join].codes[held[:, bit]])
                rows[held[:, bit], bit] += place
        return rows

    def _fill(self, subjects: Side, relations: Sequence[Relation | None]) -> Words:
        self._count = subjects.rows
        plain = _turn(_spread(subjects.masks, len(self._keys)))
        words = np.empty((self._first[-1], plain.shape[1]), np.uint64)
        related: dict[tuple[int, int], Words] = {}
        for bit, join in enumerate(self._joins):
            for row, key in enumerate(self._keys[bit].tolist(), self._first[bit]):
                words[row] = plain[bit]
                relation = relations[join] if join >= 0 else None
                if relation is not None:
                    if (join, key) not in related:
                        matches = relation.matches(key)[subjects.keys[join].codes]
                        related[join, key] = _turn(matches[:, None])[0]
                    words[row] &= related[join, key]
        return words


def _give_up(sizes: list[int], unrelated: set[int], most: int | None) -> set[int]:
    """The bits to leave to the PDP, so that no more rows than `most` remain."""
    asking = set(unrelated)
    rows = sum(1 if bit in asking else size for bit, size in enumerate(sizes))
    for bit in sorted(set(range(len(sizes))) - asking, key=lambda bit: sizes[bit], reverse=True):
        if most is None or rows <= most or sizes[bit] <= 1:
            break
        asking.add(bit)
        rows -= sizes[bit] - 1
    return asking


def _spread(masks: Masks, bits: int) -> Outcomes:
    """A mask a row, as booleans."""
    return np.unpackbits(masks, axis=1, bitorder="little")[:, :bits].astype(np.bool_)


def _turn(held: Outcomes) -> Words:
    """A column of booleans becomes a row of words."""
    packed = np.packbits(held.T, axis=1, bitorder="little")
    padded = np.zeros((packed.shape[0], -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)
