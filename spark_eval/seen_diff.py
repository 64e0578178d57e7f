"""A policy diff over requests that were really asked: each counts as often as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_eval.column import Codes
from spark_eval.compare import CHANGES, Change
from spark_eval.diff import MOST, Diff, Example, Group, label, largest, make_group, prefix


@dataclass(frozen=True, slots=True)
class Seen:
    """A request whose decision changes, how often it was asked, and by a subject with which roles."""

    example: Example
    count: int
    roles: Sequence[str]

    @property
    def kind(self) -> int:
        return CHANGES.index(Change(self.example.before, self.example.after))  # type: ignore[arg-type]

    @property
    def causes(self) -> tuple[str, ...]:
        """The policies that decide now, or if none does, those that did."""
        return self.example.policies_after or self.example.policies_before


def seen_diff(requests: int, changed: Iterable[Seen]) -> Diff:
    """What changes of so many requests."""
    rows = sorted(changed, key=lambda each: -each.count)
    counts = _counts(rows, lambda each: [""]).get("", np.zeros(len(CHANGES), np.int64))
    return Diff(
        requests,
        {label(kind): int(total) for kind, total in zip(CHANGES, counts, strict=True) if total},
        len({each.example.subject for each in rows}),
        len({(each.example.object, each.example.action) for each in rows}),
        _groups(rows, lambda each: each.causes),
        _groups(rows, lambda each: each.roles),
        _groups(rows, lambda each: [prefix(each.example.object)]),
        _groups(rows, lambda each: [each.example.subject]),
        tuple(each.example for each in rows[:MOST]),
    )


def _counts(rows: Iterable[Seen], names: Callable[[Seen], Iterable[str]]) -> dict[str, Codes]:
    counts: dict[str, Codes] = {}
    for each in rows:
        for name in names(each):
            counts.setdefault(name, np.zeros(len(CHANGES), np.int64))[each.kind] += each.count
    return counts


def _groups(rows: list[Seen], names: Callable[[Seen], Iterable[str]]) -> tuple[Group, ...]:
    examples = {name: each.example for each in reversed(rows) for name in names(each)}
    return largest(make_group(name, total, examples[name]) for name, total in _counts(rows, names).items())
