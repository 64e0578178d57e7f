"""A policy diff over requests that were really asked: each counts as often as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from authz import Entity, Request
from authz.request import Attributes
from pdp.bundle import Bundle, PolicySet
from pdp.engine import Engine
from spark_eval.analysis.compare import CHANGES, Change
from spark_eval.analysis.diff import MOST, Diff, Example, Group, label, largest, make_group, prefix
from spark_eval.columns import Codes
from spark_eval.schemas import SEEN

Known = Mapping[str, Attributes]
"""What is known of entities, by name."""


@dataclass(frozen=True, slots=True)
class SeenWork:
    """What a task does: decide each request twice."""

    before: bytes
    """Both sets of policies as packed bundles, since an engine cannot travel."""
    after: bytes
    subjects: Known
    objects: Known

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engines = engine_of(self.before), engine_of(self.after)
        for batch in batches:
            yield pa.RecordBatch.from_pylist([self._decide(row, *engines) for row in batch.to_pylist()], SEEN)

    def _decide(self, row: Mapping[str, object], before: Engine, after: Engine) -> dict[str, object]:
        request = self.request(row)
        old, new = before.evaluate(request), after.evaluate(request)
        return {
            "subject": request.subject.id,
            "object": request.object.id,
            "action": request.action.id,
            "roles": _roles(request.subject.attributes),
            "count": row["count"],
            "before": old.effect,
            "after": new.effect,
            "policies_before": list(old.policies),
            "policies_after": list(new.policies),
        }

    def request(self, row: Mapping[str, object]) -> Request:
        """The request in a row, with what is known of its entities."""
        return Request(
            _entity(row, "subject", self.subjects),
            _entity(row, "object", self.objects),
            _entity(row, "action", {}),
            read_attributes(row["context"]),
        )


@lru_cache(maxsize=4)
def engine_of(packed: bytes) -> Engine:
    """The engine of a packed bundle; a process makes it once."""
    return PolicySet.read(Bundle.unpack(packed)).engine()


def _entity(row: Mapping[str, object], kind: str, known: Known) -> Entity:
    name = str(row[kind])
    return Entity(name, {**read_attributes(row[f"{kind}_attributes"]), **known.get(name, {})})


def read_attributes(text: object) -> Attributes:
    """Attributes, or a context, as they stand in a column: JSON, or nothing."""
    return msgspec.json.decode(text, type=dict[str, object]) if isinstance(text, str) else {}


def _roles(attributes: Attributes) -> list[str]:
    roles = attributes.get("roles")
    return [role for role in roles if isinstance(role, str)] if isinstance(roles, list) else []


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
    """What changes of the decisions about `requests` requests."""
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
