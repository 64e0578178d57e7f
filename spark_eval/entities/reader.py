"""Entities as they come in files, read batch by batch.

Three forms: typed columns (Parquet, tables), lines of JSON, and CSV, whose columns are text unless the heading says
otherwise (`level:number`). In each, `id` is the entity's name and everything else an attribute. Rows that cannot be
read are not dropped: they come out with their problem, and whoever gathers the rows refuses them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
import pyarrow as pa

from authz import Entity
from authz.predicate.values import is_number
from authz.request import Attributes
from spark_eval.columns import ID, ArrowSource, JsonSource, Source

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
