"""What changes between two plans: tile by tile, which subjects gain and lose which classes of permissions, and by what.

Invariant: a decision is counted exactly if the engines of the two plans would answer it differently in some context. Of
two decisions that both depend on the context, that is known where the conditions are the same or imply each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from authz.decision import Effect
from authz.predicate import Predicate
from spark_eval.columns import Codes
from spark_eval.evaluation import (
    Board,
    Joint,
    Tile,
    Turned,
    Words,
    allowing,
    bits_of,
    count,
    equivalent,
    members,
)
from spark_eval.plans import Side
from spark_eval.schemas import TALLIES

Known: TypeAlias = Literal["deny", "allow", "ask"]


class Change(NamedTuple):
    """What a decision was and what it becomes."""

    before: Known
    after: Known


CHANGES = (
    Change("deny", "allow"),
    Change("allow", "deny"),
    Change("deny", "ask"),
    Change("ask", "deny"),
    Change("allow", "ask"),
    Change("ask", "allow"),
    Change("ask", "ask"),
)
GAINED, LOST = CHANGES[:2]
MORE = frozenset(
    {Change("deny", "allow"), Change("deny", "ask"), Change("ask", "allow"), Change("ask", "ask")}
)
"""Changes by which somebody may be allowed what was denied."""
LESS = frozenset(
    {Change("allow", "deny"), Change("ask", "deny"), Change("allow", "ask"), Change("ask", "ask")}
)
EXAMPLES = 3
"""Subjects kept as examples of what changes about a class."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that is to be compared: the subjects, and the classes of permissions about which something changed."""

    joint: Joint
    subjects: Turned
    classes: Side
    sizes: Codes
    """How many permissions are in each class."""

    @property
    def size(self) -> tuple[int, int]:
        return self.subjects.count, self.classes.rows

    @property
    def schema(self) -> pa.Schema:
        return TALLIES

    def tallies(self, tile: Tile) -> Iterator[pa.RecordBatch]:
        """What changes in a tile, counted by class, by subject and by bit."""
        pair, tally = Pair(self, tile), _Tally(tile.subjects[0])
        for number in range(*tile.classes):
            row = number - tile.classes[0]
            for kind, subjects in pair.changes(row):
                tally.add(kind, number, int(self.sizes[number]), subjects, pair.causes(kind, row))
        return tally.batches()


class Pair:
    """The boards before and after, of one tile."""

    def __init__(self, comparison: Comparison, tile: Tile) -> None:
        joint = comparison.joint
        subjects = comparison.subjects.block(*tile.subjects)
        classes = comparison.classes.take(slice(*tile.classes))
        self._differing = set(joint.old) ^ set(joint.new)
        self._before, self._after = (
            (Board(plan, joint.subjects(subjects, plan, bits), joint.permissions(classes, plan, bits)), bits)
            for plan, bits in ((joint.before, joint.old), (joint.after, joint.new))
        )

    def changes(self, row: int) -> list[tuple[Change, Words]]:
        """Who is decided otherwise than before about a class."""
        old, new = self._before[0].ruling(row), self._after[0].ruling(row)
        asking = old.asking & new.asking
        found = {
            GAINED: new.allowed & ~old.allowed & ~old.asking,
            LOST: old.allowed & ~new.allowed & ~new.asking,
            Change("deny", "ask"): new.asking & ~old.allowed & ~old.asking,
            Change("ask", "deny"): old.asking & ~new.allowed & ~new.asking,
            Change("allow", "ask"): old.allowed & new.asking,
            Change("ask", "allow"): old.asking & new.allowed,
            Change("ask", "ask"): self._otherwise(row, asking) if asking.any() else asking,
        }
        return [(kind, subjects) for kind, subjects in found.items() if subjects.any()]

    def causes(self, kind: Change, row: int) -> Iterator[tuple[int, Words]]:
        """The bits of the joint plan that only one side has and that pull this way, each with whom it matches."""
        pull = _ORDER[kind.after] - _ORDER[kind.before]
        for (board, bits), sign in ((self._before, -1), (self._after, 1)):
            for tier, rows in board.steps(row):
                towards = sign if tier.effect is Effect.ALLOW else -sign
                for each in rows.tolist():
                    bit = bits[board.owners[each]]
                    if bit in self._differing and towards * pull >= 0:
                        yield bit, board.words[each]

    def reasons(self, row: int, subject: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The policies that determine the decision about a subject, before and after."""
        before, after = (_determining(board, row, subject) for board, _ in (self._before, self._after))
        return before, after

    def conditions(self, row: int, subject: int) -> tuple[Predicate, Predicate]:
        """Under which condition a subject is allowed, before and after."""
        before, after = (
            _condition(board, row, _matching(board, row, subject)) for board, _ in (self._before, self._after)
        )
        return before, after

    def _otherwise(self, row: int, asking: Words) -> Words:
        """Those of the subjects who ask before and after whose conditions are not known to be the same."""
        places = members(asking)
        rows = [
            (board, each)
            for board, _ in (self._before, self._after)
            for step in board.steps(row)
            for each in step.rows
        ]
        held = np.array([bits_of(board.words[each])[places] for board, each in rows])
        patterns, which = np.unique(held, axis=1, return_inverse=True)
        differing = np.array([self._differ(row, rows, pattern) for pattern in patterns.T])
        changed = np.zeros(len(asking) * 64, np.uint8)
        changed[places[differing[which.reshape(-1)]]] = 1
        return np.packbits(changed, bitorder="little").view(np.uint64)

    def _differ(self, row: int, rows: Sequence[tuple[Board, int]], pattern: npt.NDArray[np.uint8]) -> bool:
        held = [each for each, is_in in zip(rows, pattern, strict=True) if is_in]
        before, after = (
            _condition(board, row, {int(number) for whose, number in held if whose is board})
            for board, _ in (self._before, self._after)
        )
        return not equivalent(before, after)


_ORDER = {"deny": 0, "ask": 1, "allow": 2}


def _matching(board: Board, row: int, subject: int) -> set[int]:
    word, bit = divmod(subject, 64)
    rows = (int(each) for step in board.steps(row) for each in step.rows)
    return {each for each in rows if int(board.words[each][word]) >> bit & 1}


def _condition(board: Board, row: int, matching: set[int]) -> Predicate:
    return allowing(board.steps(row), matching, board.condition)


def _determining(board: Board, row: int, subject: int) -> tuple[str, ...]:
    matching = _matching(board, row, subject)
    for _, rows in board.steps(row):
        bits = [board.plan.bits[board.owners[each]] for each in rows.tolist() if each in matching]
        if bits:
            return tuple(dict.fromkeys(policy for bit in bits for policy in bit.policies))
    return ()


class _Tally:
    """Counts of a tile in the making."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._rows: list[tuple[str, int, int, int, bytes]] = []
        self._subjects: dict[int, Codes] = {}
        self._bits: dict[tuple[int, int], tuple[int, bytes]] = {}

    def add(
        self, kind: Change, number: int, size: int, subjects: Words, causes: Iterable[tuple[int, Words]]
    ) -> None:
        """Note that the decisions about a class of permissions change for these subjects."""
        place = CHANGES.index(kind)
        bits = bits_of(subjects)
        examples = np.flatnonzero(bits)[:EXAMPLES] + self._first
        self._rows.append(("class", place, number, count(subjects), examples.astype("<i8").tobytes()))
        self._subjects[place] = self._subjects.get(place, 0) + bits.astype(np.int64) * size
        for bit, matching in causes:
            affected = subjects & matching
            if affected.any():
                before, example = self._bits.get((place, bit), (0, b""))
                if not example:
                    example = np.array([number, members(affected)[0] + self._first], "<i8").tobytes()
                self._bits[place, bit] = before + count(affected) * size, example

    def batches(self) -> Iterator[pa.RecordBatch]:
        for place, counts in self._subjects.items():
            self._rows.append(
                ("subject", place, self._first, int(counts.sum()), counts.astype("<i8").tobytes())
            )
        for (place, bit), (total, example) in self._bits.items():
            self._rows.append(("bit", place, bit, total, example))
        if self._rows:
            columns = zip(zip(*self._rows, strict=True), TALLIES.types, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(*each) for each in columns], schema=TALLIES)
