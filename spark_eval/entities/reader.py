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
from authz.request import Attributes
from pdp.bundle import ID, InvalidRow, csv_reader, read_json_line, shown
from spark_eval.columns import ArrowSource, JsonSource, Source

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
    read = read_json_line if form == "json" else _csv_reader(batch.schema.names)
    rows = batch.column(LINE).to_pylist() if form == "json" else batch.to_pylist()
    entities: dict[int, Attributes] = {}
    problems: list[str] = []
    for number, row in enumerate(rows):
        try:
            entities[number] = read(row)
        except InvalidRow as error:
            problems.append(str(error))
    names = [str(each.pop(ID)) for each in entities.values()]
    return Entry(names, JsonSource(list(entities.values()), names), problems)


def _typed(table: pa.Table) -> Entry:
    names = table.column(ID).to_pylist()
    missing = sum(not name for name in names)
    if missing:
        table = table.filter(pa.array([bool(name) for name in names]))
    return Entry([name for name in names if name], ArrowSource(table), ["a row without `id`"] * missing)


def _csv_reader(headings: Sequence[str]) -> Callable[[Mapping[str, str | None]], Attributes]:
    read_cells = csv_reader([each for each in headings if each != BROKEN])

    def read(row: Mapping[str, str | None]) -> Attributes:
        if row.get(BROKEN) is not None:
            raise InvalidRow(f"a row of another length: {shown(row[BROKEN])}")
        return read_cells(row)

    return read
