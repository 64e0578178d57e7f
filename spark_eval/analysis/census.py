"""Counting what is granted and what was used: tile by tile, by subject, by class of permissions and by policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from authz.decision import Effect
from spark_eval.columns import Codes
from spark_eval.evaluation import Board, Decisions, Tile, bits_of, count
from spark_eval.schemas import TALLIES

ALLOWED, ASKING, USED = 0, 1, 2
"""What is counted."""


@dataclass(frozen=True, slots=True)
class Log:
    """What was used: pairs of subject and permission, each once."""

    subjects: Codes
    permissions: Codes
    strangers: int = 0
    """Requests about somebody or something that is not known here."""


NOTHING = Log(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Census:
    """All decisions, how many permissions each class stands for, and what was used of which class."""

    decisions: Decisions
    sizes: Codes
    used_subjects: Codes
    used_classes: Codes
    """In order."""

    @classmethod
    def of(cls, decisions: Decisions, members: Codes, log: Log | None = None) -> Census:
        """`members` has the class of each permission."""
        log = log or NOTHING
        classes = members[log.permissions]
        order = np.argsort(classes, kind="stable")
        sizes = np.bincount(members, minlength=decisions.classes.rows)
        return cls(decisions, sizes, log.subjects[order], classes[order])

    @property
    def size(self) -> tuple[int, int]:
        return self.decisions.subjects.count, self.decisions.classes.rows

    @property
    def schema(self) -> pa.Schema:
        return TALLIES

    def tallies(self, tile: Tile) -> Iterator[pa.RecordBatch]:
        """What there is in a tile."""
        first, last = tile.classes
        board = Board(
            self.decisions.plan,
            self.decisions.subjects.block(*tile.subjects),
            self.decisions.classes.take(slice(first, last)),
        )
        tally = _Tally(board, tile)
        for number in range(first, last):
            tally.add(number, int(self.sizes[number]), self._users(number, tile.subjects))
        return tally.batches()

    def _users(self, number: int, subjects: tuple[int, int]) -> Codes:
        """Who of the tile's subjects has used a permission of the class, as often as different ones."""
        start, stop = np.searchsorted(self.used_classes, [number, number + 1])
        users = self.used_subjects[start:stop]
        return users[(users >= subjects[0]) & (users < subjects[1])] - subjects[0]


class _Tally:
    """Counts of a tile in the making."""

    def __init__(self, board: Board, tile: Tile) -> None:
        self._board = board
        self._tile = tile
        rows = tile.subjects[1] - tile.subjects[0]
        self._subjects = np.zeros((3, rows), np.int64)
        self._classes: list[tuple[int, int, int]] = []
        self._bits = np.zeros((3, len(board.plan.bits)), np.int64)
        self._matching = [count(words) for words in board.words]

    def add(self, number: int, size: int, users: Codes) -> None:
        """Count a class that stands for `size` permissions."""
        row = number - self._tile.classes[0]
        rulings = self._board.ruling(row)
        for what, words in ((ALLOWED, rulings.allowed), (ASKING, rulings.asking)):
            held = bits_of(words)[: self._subjects.shape[1]]
            self._subjects[what] += held.astype(np.int64) * size
            self._classes.append((what, number, int(held.sum())))
            if what == ALLOWED and len(users):
                rightful = users[held[users] > 0]
                np.add.at(self._subjects[USED], rightful, 1)
                self._classes.append((USED, number, len(rightful)))
        self._count_bits(row, size, users)

    def _count_bits(self, row: int, size: int, users: Codes) -> None:
        for tier, rows in self._board.steps(row):
            if tier.effect is Effect.ALLOW:
                for each in rows.tolist():
                    bit = self._board.owners[each]
                    self._bits[ALLOWED, bit] += self._matching[each] * size
                    self._bits[USED, bit] += (
                        int(bits_of(self._board.words[each])[users].sum()) if len(users) else 0
                    )

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[str, int, int, int, bytes]] = []
        for what in (ALLOWED, ASKING, USED):
            counts = self._subjects[what]
            data = counts.astype("<i8").tobytes()
            rows.append(("subject", what, self._tile.subjects[0], int(counts.sum()), data))
            rows += [
                ("bit", what, bit, int(total), b"") for bit, total in enumerate(self._bits[what]) if total
            ]
        rows += [("class", what, number, total, b"") for what, number, total in self._classes if total]
        columns = zip(zip(*rows, strict=True), TALLIES.types, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(*each) for each in columns], schema=TALLIES)


@dataclass(frozen=True, slots=True)
class Counts:
    """What the tiles have counted together. The first index is what is counted."""

    subjects: Codes
    classes: Codes
    bits: Codes

    @classmethod
    def of(cls, tallies: pa.Table, census: Census) -> Counts:
        decisions = census.decisions
        sizes = (decisions.subjects.count, decisions.classes.rows, len(decisions.plan.bits))
        found = cls(*(np.zeros((3, size), np.int64) for size in sizes))
        columns = (tallies.column(name).to_pylist() for name in TALLIES.names)
        for what, kind, key, total, data in zip(*columns, strict=True):
            if what == "subject":
                counts = np.frombuffer(data, "<i8")
                found.subjects[kind, key : key + len(counts)] += counts
            elif what == "class":
                found.classes[kind, key] += total
            else:
                found.bits[kind, key] += total
        return found
