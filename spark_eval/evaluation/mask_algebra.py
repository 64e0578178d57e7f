"""The algebra: from masks of subjects and permissions to rulings, one bit for each subject, a permission at a time.

The subjects' masks are turned over, so that each bit of the plan is a row of as many bits as there are subjects. Whom
a permission is allowed to is then the disjunction of a few such rows, tier by tier. A bit with a join is as many rows
as there are values on the permissions' side: one for each value, with the subjects that stand in the relation to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from authz.decision import Effect
from authz.predicate import FALSE, TRUE, And, Not, Or, Predicate, covers
from sdp_cache.snapshots import Ruling
from spark_eval.columns import Codes, Outcomes
from spark_eval.plans import Keys, Masks, Plan, Relation, Side, Tier, relate, width

Words: TypeAlias = npt.NDArray[np.uint64]
"""A set of subjects: each has the bit of its row, counted from the lowest of the first word."""

PLAIN = np.array([-1])
"""The keys of a bit without a join."""


class Rulings(NamedTuple):
    """What the subjects may: those in neither set are denied. For several permissions, a row of words for each."""

    allowed: Words
    asking: Words


class Step(NamedTuple):
    """The rows of the board by which a tier matches a permission."""

    tier: Tier
    rows: Codes


@dataclass(frozen=True, slots=True)
class Turned:
    """A side turned over: for each bit of the plan the rows that match."""

    count: int
    words: Words
    keys: tuple[Keys, ...]

    def block(self, start: int, stop: int) -> Turned:
        """The rows in between; `start` must be a multiple of 64."""
        count = min(stop, self.count) - start
        keys = tuple(each.take(slice(start, stop)) for each in self.keys)
        return Turned(count, self.words[:, start // 64 : -(-stop // 64)], keys)


def turn(side: Side, bits: int) -> Turned:
    """The side of the subjects, turned over for a board."""
    bytes_ = np.ascontiguousarray(side.masks.T)
    words = [_pack(bytes_[bit >> 3] >> (bit & 7) & 1) for bit in range(bits)]
    return Turned(side.rows, np.array(words, np.uint64).reshape(bits, -(-side.rows // 64)), side.keys)


def bits_of(words: Words) -> Masks:
    """A one for each subject in a set, and a nought for each that is not; noughts behind the last."""
    return np.unpackbits(words.view(np.uint8), bitorder="little")


def members(words: Words) -> Codes:
    """The rows of the subjects in a set."""
    return np.flatnonzero(bits_of(words))


class Board:
    """Subjects against permissions, which are best given as classes."""

    def __init__(self, plan: Plan, subjects: Turned, permissions: Side, most: int | None = None) -> None:
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
        self._count = subjects.count
        self.plan = plan
        self.owners = [bit for bit, each in enumerate(self._keys) for _ in each]
        """The bit of the plan that each row belongs to."""
        self.asking = frozenset(asking)
        """Bits that the PDP must be asked about, though their policies do not look at the context."""
        self._first = np.cumsum([0, *map(len, self._keys)])
        self.tiers = plan.tiers(self.asking)
        self.words = self._fill(subjects, relations)
        self._file_rows(held, permissions)

    def condition(self, row: int) -> Predicate:
        """What a row that asks depends on."""
        bit = self.owners[row]
        clause = self.plan.bits[bit].clause
        if bit not in self.asking:
            return clause.ask
        return clause.join if clause.ask == TRUE else And((clause.join, clause.ask))

    def steps(self, permission: int) -> list[Step]:
        """The rows that count for a permission, in order."""
        steps = range(self._starts[permission], self._starts[permission + 1])
        return [
            Step(self.tiers[self._tiers[step]], self._counting[self._begins[step] : self._begins[step + 1]])
            for step in steps
        ]

    def ruling(self, permission: int) -> Rulings:
        """What the subjects may do with a permission."""
        allowed, asking = self.rulings(permission, permission + 1)
        return Rulings(allowed[0], asking[0])

    def rulings(self, first: int, last: int) -> Rulings:
        """What the subjects may do with each permission from the first to before the last.

        From the last tier to the first, two sets are kept: who may turn out allowed, and who denied, as far as
        is known without the context. Who is in both must ask.
        """
        start, stop = self._starts[first], self._starts[last]
        tiers = self._tiers[start:stop]
        may_allow = np.zeros((last - first, self.words.shape[1]), np.uint64)
        may_deny = ~may_allow
        for number in np.unique(tiers)[::-1].tolist():
            tier, steps = self.tiers[number], start + np.flatnonzero(tiers == number)
            permissions, matching = self._owners[steps] - first, self._matching(steps)
            gains, loses = (may_allow, may_deny) if tier.effect is Effect.ALLOW else (may_deny, may_allow)
            gains[permissions] |= matching
            if tier.ruling is not Ruling.ASK:
                loses[permissions] &= ~matching
        return Rulings(may_allow & ~may_deny, may_allow & may_deny)

    def _matching(self, steps: Codes) -> Words:
        """For each step, the subjects in one of its rows."""
        begins, lengths = self._begins[steps], self._begins[steps + 1] - self._begins[steps]
        found: Words = self.words[self._counting[begins]]
        for place in range(1, int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > place)
            found[longer] |= self.words[self._counting[begins[longer] + place]]
        return found

    def subject_masks(self) -> Masks:
        """For each subject the rows it is in, as a mask."""
        masks = np.zeros((width(len(self.words)), self._count), np.uint8)
        for row, words in enumerate(self.words):
            held = np.unpackbits(words.view(np.uint8), count=self._count, bitorder="little")
            masks[row >> 3] |= held << (row & 7)
        return masks.T

    def permission_masks(self) -> Masks:
        """For each permission the rows that count for it, as a mask."""
        count = len(self._starts) - 1
        held = np.zeros((count, 8 * width(int(self._first[-1]))), np.bool_)
        held[self._permissions, self._counting] = True
        return np.packbits(held, axis=1, bitorder="little")

    def _file_rows(self, held: Outcomes, permissions: Side) -> None:
        """For each permission, one after the other, its rows in the order of their tiers."""
        order = np.array([bit for tier in self.tiers for bit in tier.bits], np.int64)
        tier_of = np.array([number for number, tier in enumerate(self.tiers) for _ in tier.bits], np.int64)
        holders, places = np.nonzero(held[:, order])
        tiers = tier_of[places]
        new = (np.diff(holders, prepend=-1) != 0) | (np.diff(tiers, prepend=-1) != 0)
        begins = np.flatnonzero(new)
        self._permissions = holders
        self._counting = self._find_rows(holders, order[places], permissions)
        self._tiers, self._owners = tiers[begins], holders[begins]
        self._begins = np.append(begins, len(tiers))
        self._starts = np.searchsorted(self._owners, np.arange(len(held) + 1)).tolist()

    def _find_rows(self, holders: Codes, bits: Codes, permissions: Side) -> Codes:
        """For permissions and bits that match them, the row that counts."""
        rows = self._first[bits]
        for bit, join in enumerate(self._joins):
            if join >= 0:
                joined = np.flatnonzero(bits == bit)
                codes = permissions.keys[join].codes[holders[joined]]
                rows[joined] += np.searchsorted(self._keys[bit], codes)
        return rows

    def _fill(self, subjects: Turned, relations: Sequence[Relation | None]) -> Words:
        plain = subjects.words
        if all(join < 0 for join in self._joins):
            return plain
        words = np.empty((self._first[-1], plain.shape[1]), np.uint64)
        related: dict[tuple[int, int], Words] = {}
        for bit, join in enumerate(self._joins):
            for row, key in enumerate(self._keys[bit].tolist(), self._first[bit]):
                words[row] = plain[bit]
                relation = relations[join] if join >= 0 else None
                if relation is not None:
                    if (join, key) not in related:
                        related[join, key] = _pack(relation.matches(key)[subjects.keys[join].codes])
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


def _pack(held: Masks | Outcomes) -> Words:
    """Ones and zeros, or booleans, as a set."""
    packed = np.packbits(held, bitorder="little").tobytes()
    return np.frombuffer(packed.ljust(-(-len(packed) // 8) * 8, b"\0"), np.uint64)


def allowing(
    steps: Sequence[Step], matching: Collection[int], condition: Callable[[int], Predicate]
) -> Predicate:
    """When a subject in these rows is allowed. `condition` says what a row that asks depends on."""
    found: Predicate = FALSE
    for tier, rows in reversed(steps):
        held = [row for row in rows.tolist() if row in matching]
        if not held:
            continue
        if tier.ruling is not Ruling.ASK:
            found = TRUE if tier.effect is Effect.ALLOW else FALSE
        else:
            applies = _or([condition(row) for row in held])
            found = _or([applies, found]) if tier.effect is Effect.ALLOW else _and(Not(applies), found)
    return found


def equivalent(one: Predicate, other: Predicate) -> bool:
    """Whether both hold of the same requests. False may also mean: not known."""
    return one == other or (covers(one, other) and covers(other, one))


def _or(terms: Sequence[Predicate]) -> Predicate:
    several = tuple(dict.fromkeys(term for term in terms if term != FALSE))
    if TRUE in several:
        return TRUE
    return several[0] if len(several) == 1 else Or(several)


def _and(one: Predicate, other: Predicate) -> Predicate:
    return FALSE if other == FALSE else one if other == TRUE else And((one, other))
