"""What Spark's tasks make of entities: masks under a plan, roles, and attributes as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from authz import Entity
from authz.predicate import Kind, KindName, Path, comparisons
from pdp.bundle import expected_kinds
from spark_eval.columns import ArrowSource, Column, Derivation, DerivedSource, JsonSource, Table
from spark_eval.entities.mask_encoding import encode_keys, encode_masks
from spark_eval.entities.reader import Entry, Form, read_batch
from spark_eval.plans import Part, Plan, Side, evaluate
from spark_eval.schemas import ATTRIBUTES, MASKS, ROLES


@dataclass(frozen=True, slots=True)
class MaskWork:
    """What a task does with the batches of one kind of entities: their masks under a plan."""

    plan: Plan
    part: Part
    form: Form = "json"
    derivations: Mapping[str, Derivation] = field(default_factory=dict)
    actions: Sequence[Entity] = ()
    """With objects: the actions that each of them is crossed with."""
    types: Mapping[Path, KindName] = field(default_factory=dict)
    """The types that a manifest gives to attributes."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            entry = read_batch(batch, self.form)
            if entry.names:
                yield self._masks(entry)
            if entry.problems:
                yield _problems(entry.problems)

    def check(self, schema: pa.Schema) -> None:
        """Raise UnreadableColumn if the plan looks at a column whose values are nothing that JSON has."""
        columns = ArrowSource(schema.empty_table())
        for path in self.paths():
            columns.column(path.keys)

    def paths(self) -> tuple[Path, ...]:
        """The attributes that the plan looks at, of these entities."""
        roots = {"subject"} if self.part is Part.SUBJECT else {"object"}
        derived = (
            Path(root.partition(":")[0], (name,))
            for root, each in self.derivations.items()
            for name in each.attributes
        )
        paths = dict.fromkeys((*self.plan.paths(*roots), *derived))
        return tuple(path for path in paths if path.keys and path.root in roots)

    def expected(self) -> dict[Path, frozenset[KindName]]:
        """The types that attributes have by the manifest, or that policies compare them with."""
        found: dict[Path, frozenset[KindName]] = {}
        for bit in self.plan.bits:
            for test in (*comparisons(bit.clause.subject), *comparisons(bit.clause.permission)):
                found[test.path] = found.get(test.path, frozenset()) | expected_kinds(test)
        return {**found, **{path: frozenset({kind}) for path, kind in self.types.items()}}

    def mistyped(self, path: Path, column: Column, expected: frozenset[KindName]) -> bool:
        """Whether any value has another type than the manifest says, or is text that no policy compares it with."""
        if path in self.types:
            fits = column.test(Kind(path, self.types[path]))
            return bool(((column.codes >= 0) & ~fits).any())
        return bool(expected) and "string" not in expected and bool(column.test(Kind(path, "string")).any())

    def _masks(self, entry: Entry) -> pa.RecordBatch:
        root = "subject" if self.part is Part.SUBJECT else "object"
        table = self._table(root, entry)
        columns = [table.column(path) for path in self.paths()]
        present = [bool((column.codes >= 0).any()) for column in columns]
        expected = self.expected()
        mistyped = [
            self.mistyped(path, column, expected.get(path, frozenset()))
            for path, column in zip(self.paths(), columns, strict=True)
        ]
        each = 1
        if self.part is Part.PERMISSION:
            attributes, names = [each.attributes for each in self.actions], [each.id for each in self.actions]
            table = table.cross(Table(len(names), {"action": JsonSource(attributes, names)}))
            each = len(names)
        side = evaluate(self.plan, table, self.part)
        return _batch(entry.names, each, side, present, mistyped)

    def _table(self, root: str, entry: Entry) -> Table:
        derived = {
            name: DerivedSource(entry.source, each)
            for name, each in self.derivations.items()
            if name.partition(":")[0] == root
        }
        return Table(len(entry.names), {root: entry.source, **derived})


@dataclass(frozen=True, slots=True)
class RoleWork:
    """What a task does to find the roles that subjects have."""

    form: Form

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lists = read_batch(batch, self.form).source.column(("roles",)).values.objects
            found = {
                role for each in lists if isinstance(each, list) for role in each if isinstance(role, str)
            }
            yield pa.RecordBatch.from_arrays([pa.array(sorted(found), pa.string())], schema=ROLES)


@dataclass(frozen=True, slots=True)
class AttributeWork:
    """What a task does to hand back some attributes of entities as they are."""

    form: Form
    names: frozenset[str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            entry = read_batch(batch, self.form)
            columns = {name: entry.source.column((name,)).rows() for name in sorted(self.names)}
            found = (
                {name: rows[row] for name, rows in columns.items() if rows[row] is not None}
                for row in range(len(entry.names))
            )
            texts = [msgspec.json.encode(each).decode() for each in found]
            yield pa.RecordBatch.from_arrays(
                [pa.array(entry.names, pa.string()), pa.array(texts, pa.string())], schema=ATTRIBUTES
            )


def _batch(
    names: Sequence[str], each: int, side: Side, present: Sequence[bool], mistyped: Sequence[bool]
) -> pa.RecordBatch:
    """A row for each mask; what is present in any of them, and mistyped, is said in the first."""
    rows = side.rows
    first = [
        np.packbits(np.array(flags, np.bool_), bitorder="little").tobytes() for flags in (present, mistyped)
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(names, pa.string()).take(pa.array(np.arange(rows) // each)),
            pa.array(np.arange(rows) % each, pa.int32()),
            encode_masks(side),
            encode_keys(side),
            *(pa.array([flags, *[None] * (rows - 1)], pa.binary()) for flags in first),
            pa.nulls(rows, pa.string()),
        ],
        schema=MASKS,
    )


def _problems(problems: Sequence[str]) -> pa.RecordBatch:
    columns = [pa.nulls(len(problems), field.type) for field in MASKS]
    return pa.RecordBatch.from_arrays([*columns[:-1], pa.array(problems, pa.string())], schema=MASKS)
