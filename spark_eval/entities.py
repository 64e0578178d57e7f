"""Entities as they come in files, batch by batch, and their masks under a plan: what runs inside Spark's tasks.

Three forms: typed columns (Parquet, tables), lines of JSON, and CSV, whose columns are text unless the heading says
otherwise (`level:number`). In each, `id` is the entity's name and everything else an attribute. Rows that cannot be
read are not dropped: they come out with their problem, and whoever gathers the rows refuses them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from authz import Entity
from authz.predicate import Path
from authz.predicate.values import is_number
from authz.request import Attributes
from spark_eval.masks import Side, evaluate
from spark_eval.plan import Plan
from spark_eval.schemas import ATTRIBUTES, MASKS, ROLES
from spark_eval.split import Part
from spark_eval.table import ID, ArrowSource, Derivation, DerivedSource, JsonSource, Source, Table

Form: TypeAlias = Literal["columns", "json", "csv"]
LINE = "value"
"""The column that holds a line of JSON."""
BROKEN = "_broken"
"""The column that holds a line of CSV that does not fit its heading."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Entities that could be read, and problems of those that could not."""

    names: Sequence[str]
    source: Source
    problems: Sequence[str] = ()


def line_batch(entities: Iterable[Entity]) -> pa.RecordBatch:
    """Entities that are at hand, as lines of JSON."""
    lines = [msgspec.json.encode({**each.attributes, ID: each.id}).decode() for each in entities]
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=[LINE])


def read_batch(batch: pa.RecordBatch, form: Form) -> Entry:
    """The entities in a batch of rows."""
    if form == "columns":
        return _typed(pa.Table.from_batches([batch]))
    read = _read_line if form == "json" else _csv_reader(batch.schema.names)
    rows = batch.column(LINE).to_pylist() if form == "json" else batch.to_pylist()
    entities: dict[int, Attributes] = {}
    problems: list[str] = []
    for number, row in enumerate(rows):
        try:
            entities[number] = read(row)
        except _Unreadable as error:
            problems.append(str(error))
    names = [str(each.pop(ID)) for each in entities.values()]
    return Entry(names, JsonSource(list(entities.values()), names), problems)


class _Unreadable(Exception):
    """A row that is no entity."""


def _typed(table: pa.Table) -> Entry:
    names = table.column(ID).to_pylist()
    missing = sum(not name for name in names)
    if missing:
        table = table.filter(pa.array([bool(name) for name in names]))
    return Entry([name for name in names if name], ArrowSource(table), ["a row without `id`"] * missing)


def _read_line(line: str) -> Attributes:
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError:
        raise _Unreadable(f"no JSON: {_shown(line)}") from None
    if not isinstance(row, dict):
        raise _Unreadable(f"no object: {_shown(line)}")
    return _named(row, line)


def _named(row: Attributes, shown: object) -> Attributes:
    name = row.get(ID)
    if not isinstance(name, str) or not name:
        raise _Unreadable(f"no text as `id`: {_shown(shown)}")
    return row


def _csv_reader(headings: Sequence[str]) -> Callable[[Mapping[str, str | None]], Attributes]:
    columns = {each: csv_column(each) for each in headings if each != BROKEN}

    def read(row: Mapping[str, str | None]) -> Attributes:
        if row.get(BROKEN) is not None:
            raise _Unreadable(f"a row of another length: {_shown(row[BROKEN])}")
        found: Attributes = {}
        for heading, (name, kind) in columns.items():
            text = row[heading]
            if text is not None and text != "":
                found[name] = _read_cell(text, kind, name)
        return _named(found, ",".join(each or "" for each in row.values()))

    return read


def csv_column(heading: str) -> tuple[str, str]:
    """The name and the type that a heading gives."""
    name, _, kind = heading.partition(":")
    return name.strip(), kind.strip() or "string"


_FITS: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "json": lambda value: True,
}
CSV_KINDS = tuple(_FITS)


def _read_cell(text: str, kind: str, column: str) -> object:
    if kind == "string":
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = None
    if value is None or not _FITS[kind](value):
        raise _Unreadable(f"no {kind} in `{column}`: {_shown(text)}")
    return value


def _shown(value: object) -> str:
    text = str(value)
    return f"`{text[:60]}`" + ("..." if len(text) > 60 else "")


@dataclass(frozen=True, slots=True)
class MaskWork:
    """What a task does with the batches of one kind of entities: their masks under a plan."""

    plan: Plan
    part: Part
    form: Form = "json"
    derivations: Mapping[str, Derivation] = field(default_factory=dict)
    actions: Sequence[Entity] = ()
    """With objects: the actions that each of them is crossed with."""

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

    def _masks(self, entry: Entry) -> pa.RecordBatch:
        root = "subject" if self.part is Part.SUBJECT else "object"
        table = self._table(root, entry)
        present = [bool((table.column(path).codes >= 0).any()) for path in self.paths()]
        each = 1
        if self.part is Part.PERMISSION:
            attributes, names = [each.attributes for each in self.actions], [each.id for each in self.actions]
            table = table.cross(Table(len(names), {"action": JsonSource(attributes, names)}))
            each = len(names)
        side = evaluate(self.plan, table, self.part)
        return _batch(entry.names, each, side, present)

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


def _batch(names: Sequence[str], each: int, side: Side, present: Sequence[bool]) -> pa.RecordBatch:
    """A row for each mask; what is present in any of them is said in the first."""
    rows = side.rows
    found = np.packbits(np.array(present, np.bool_), bitorder="little").tobytes()
    return pa.RecordBatch.from_arrays(
        [
            pa.array(names, pa.string()).take(pa.array(np.arange(rows) // each)),
            pa.array(np.arange(rows) % each, pa.int32()),
            encode_masks(side),
            encode_keys(side),
            pa.array([found, *[None] * (rows - 1)], pa.binary()),
            pa.nulls(rows, pa.string()),
        ],
        schema=MASKS,
    )


def encode_masks(side: Side) -> pa.Array:
    rows, width = side.masks.shape
    fixed = pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(side.masks)])
    return fixed.cast(pa.binary())


def encode_keys(side: Side) -> pa.Array:
    """What the joins compare, one text for each row."""
    if not side.keys:
        return pa.nulls(side.rows, pa.binary())
    distinct, rows = np.unique(np.stack([each.codes for each in side.keys]), axis=1, return_inverse=True)
    texts = [
        _encode([each.values[code] for each, code in zip(side.keys, codes, strict=True)])
        for codes in distinct.T.tolist()
    ]
    return pa.array(texts, pa.binary()).take(pa.array(rows.reshape(-1)))


def _problems(problems: Sequence[str]) -> pa.RecordBatch:
    columns = [pa.nulls(len(problems), field.type) for field in MASKS]
    return pa.RecordBatch.from_arrays([*columns[:-1], pa.array(problems, pa.string())], schema=MASKS)


_encode = msgspec.msgpack.Encoder().encode
