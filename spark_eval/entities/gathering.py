"""Entities and their masks, gathered from all tasks: checked, in the order of their names, ready for a board."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from authz.predicate import Path, paths
from pdp.bundle import CSV_KINDS
from spark_eval.columns import Outcomes
from spark_eval.entities.mask_encoding import decode
from spark_eval.entities.mask_tasks import MaskWork
from spark_eval.errors import EvaluationError
from spark_eval.plans import Side


class InvalidEntities(EvaluationError):
    """Entities that cannot be used: where they are from, how many rows were read, and what would be right."""

    def __init__(self, source: str, rows: int, problem: str, column: str = "") -> None:
        place = f"`{source}`, column `{column}`" if column else f"`{source}`"
        super().__init__(f"{place}: {problem} ({count_of(rows, 'row')} read)")
        self.source = source
        self.rows = rows
        self.problem = problem
        self.column = column


@dataclass(frozen=True, slots=True)
class Gathered:
    """The names in order, and their masks; with objects, one for each action."""

    names: list[str]
    side: Side


def gather(found: pa.Table, work: MaskWork, source: str, may_lack: Sequence[str] = ()) -> Gathered:
    """What the tasks handed back about the entities of a file. Raises InvalidEntities.

    `may_lack` are attributes, written as `subject.dept`, that policies look at though no entity has them.
    """
    problems = pc.drop_null(found.column("problem"))
    each = max(1, len(work.actions))
    rows = (len(found) - len(problems)) // each + len(problems)
    if len(problems):
        raise InvalidEntities(
            source, rows, f"{count_of(len(problems), 'row')} cannot be read, such as {problems[0]}"
        )
    if not rows:
        raise InvalidEntities(source, 0, "there is nobody and nothing in it")
    _check_present(found, work, source, rows, frozenset(may_lack))
    _check_kinds(found, work, source, rows, frozenset(may_lack))
    found = found.take(pc.sort_indices(found, [("id", "ascending"), ("action", "ascending")]))
    names: list[str] = found.column("id").combine_chunks()[::each].to_pylist()
    if len(set(names)) < len(names):
        twice = next(name for name, after in itertools.pairwise(names) if name == after)
        more = len(names) - len(set(names))
        problem = (
            f"{count_of(more, 'name')} {'stands' if more == 1 else 'stand'} there twice, such as `{twice}`"
        )
        raise InvalidEntities(source, rows, problem, "id")
    return Gathered(names, decode(found, len(work.plan.joins)))


def _check_present(found: pa.Table, work: MaskWork, source: str, rows: int, may_lack: frozenset[str]) -> None:
    for path, held in zip(work.paths(), _flags(found, "present"), strict=False):
        if not held and str(path) not in may_lack:
            problem = f"no row has this attribute, which {_users(work, path)} looks at"
            raise InvalidEntities(source, rows, problem, column_of(path))


def _check_kinds(found: pa.Table, work: MaskWork, source: str, rows: int, may_lack: frozenset[str]) -> None:
    for path, mistyped in zip(work.paths(), _flags(found, "mistyped"), strict=False):
        if mistyped and str(path) not in may_lack:
            (kind, *_) = sorted(work.expected()[path])
            if path in work.types:
                problem = f"some values are no {kind}, which `{path}` is in bundle.yaml"
            else:
                problem = f"some values are text, and {_users(work, path)} compares it with a {kind}"
            column = column_of(path)
            heading = f"{column}:{kind if kind in CSV_KINDS else 'json'}"
            raise InvalidEntities(source, rows, f"{problem}; in CSV its heading would be `{heading}`", column)


def _flags(found: pa.Table, column: str) -> Outcomes:
    """For each attribute whether any batch says so."""
    batches = [np.frombuffer(each, np.uint8) for each in pc.drop_null(found.column(column)).to_pylist()]
    return np.unpackbits(np.bitwise_or.reduce(batches), bitorder="little").astype(np.bool_)


def column_of(path: Path) -> str:
    """The column in which an attribute stands."""
    return ".".join(map(str, path.keys))


def _users(work: MaskWork, path: Path) -> str:
    """A policy that looks at the path; labels are looked at by their policy as a whole."""
    for bit in work.plan.bits:
        if path in {*paths(bit.clause.subject), *paths(bit.clause.permission), *paths(bit.clause.join)}:
            return f"the policy `{bit.policies[0]}`"
    return "the label policy"


def count_of(number: int, noun: str) -> str:
    """A number of them, in words: `1 row`, `2 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
