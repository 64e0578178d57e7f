"""Comparisons of subjects with permissions, over all pairs of what they compare: joins, in the words of databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np

from authz.predicate import And, Layout, Not, Or, Path, Predicate, Relate, compile_predicate
from authz.predicate.values import key, same
from spark_eval.columns import Outcomes
from spark_eval.plans.masks import key_paths
from spark_eval.plans.split import Part

MAX_PAIRS = 1_000_000
"""A comparison over more pairs of values than these is left to the PDP, unless it is a plain equality."""

Values: TypeAlias = Sequence[tuple[object, ...]]


class Relation(Protocol):
    """For each value of the subjects, whether it stands in the relation to a value of the permissions."""

    def matches(self, permission: int) -> Outcomes: ...


def relate(join: Predicate, subjects: Values, permissions: Values) -> Relation | None:
    """The relation between these values; None if there are too many of them to try."""
    if isinstance(join, Relate) and join.op == "==":
        return _Equality([each[0] for each in subjects], [each[0] for each in permissions])
    if len(subjects) * len(permissions) > MAX_PAIRS:
        return None
    return _Tried(join, subjects, permissions)


def meet(subjects: Values, permissions: Values) -> bool:
    """Whether any value of the one side equals one of the other."""
    return _Equality([each[0] for each in subjects], [each[0] for each in permissions]).meet()


class _Tried:
    """Any comparison: the compiled closure, asked about each pair."""

    def __init__(self, join: Predicate, subjects: Values, permissions: Values) -> None:
        ours, theirs = key_paths(join, Part.SUBJECT), key_paths(join, Part.PERMISSION)
        places = {path: Path(f"v{number}") for number, path in enumerate((*ours, *theirs))}
        layout: Layout[tuple[object, ...]] = Layout({}, {f"v{n}": f"it[{n}]" for n in range(len(places))})
        self._test = compile_predicate(moved(join, places), layout)
        self._subjects = subjects
        self._permissions = permissions

    def matches(self, permission: int) -> Outcomes:
        value = self._permissions[permission]
        found = (self._test(subject + value) for subject in self._subjects)
        return np.fromiter(found, np.bool_, len(self._subjects))


class _Equality:
    """Equal values find each other by hashing; lists and objects, which cannot, are compared with all."""

    def __init__(self, subjects: Sequence[object], permissions: Sequence[object]) -> None:
        self._permissions = permissions
        self._subjects = subjects
        self._rows: dict[object, list[int]] = {}
        for row, value in enumerate(subjects):
            if _is_scalar(value):
                self._rows.setdefault(key(value), []).append(row)

    def matches(self, permission: int) -> Outcomes:
        value = self._permissions[permission]
        found = np.zeros(len(self._subjects), np.bool_)
        rows = (
            self._rows.get(key(value), [])
            if _is_scalar(value)
            else [row for row, each in enumerate(self._subjects) if same(value, each)]
        )
        found[rows] = True
        return found

    def meet(self) -> bool:
        """Whether any two are equal."""
        return any(
            key(value) in self._rows
            if _is_scalar(value)
            else any(same(value, each) for each in self._subjects)
            for value in self._permissions
            if value is not None
        )


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float)) and value == value


def moved(condition: Predicate, places: Mapping[Path, Path]) -> Predicate:
    """The condition, looking for some of its values elsewhere."""
    if isinstance(condition, And):
        return And(tuple(moved(each, places) for each in condition.terms))
    if isinstance(condition, Or):
        return Or(tuple(moved(each, places) for each in condition.terms))
    if isinstance(condition, Not):
        return Not(moved(condition.term, places))
    found = msgspec.structs.replace(condition, path=places.get(condition.path, condition.path))
    if isinstance(found, Relate):
        return msgspec.structs.replace(found, other=places.get(found.other, found.other))
    return found
