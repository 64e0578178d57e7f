"""Attributes from the tables that jobs read: Parquet, CSV and lines of JSON, and folders of such files.

`id` is the entity's name, every other column an attribute. A file with one row that cannot be read, or with a name
twice, is refused as a whole, as a job refuses it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from authz import AuthFabricError
from authz.extras import needing
from authz.request import Attributes
from pdp.bundle import CSV_KINDS, ID, InvalidRow, csv_column, csv_reader, read_json_line, shown

if TYPE_CHECKING:
    import pyarrow as pa

Row = TypeVar("Row")

TABLES = (".parquet", ".csv", ".jsonl", ".ndjson")
"""File extensions of tables."""


class InvalidTable(AuthFabricError):
    """A table that cannot be used: `source` is which, `problem` what would be right."""

    def __init__(self, source: Path, problem: str) -> None:
        super().__init__(f"`{source}`: {problem}")
        self.source = source
        self.problem = problem


def is_table(path: Path) -> bool:
    """Whether a path is that of a table, going by its name: a folder is one of tables."""
    return path.suffix in TABLES or path.is_dir()


def table_files(path: Path) -> list[Path]:
    """The files of a table."""
    if not path.is_dir():
        return [path]
    files = (each for each in sorted(path.rglob("*")) if each.is_file())
    return [each for each in files if not each.name.startswith((".", "_"))]


def read_table(path: Path, names: frozenset[str]) -> Mapping[str, Attributes]:
    """These attributes of each entity, by its name. Raises InvalidTable, ExtraMissing or OSError."""
    files = table_files(path)
    suffixes = {each.suffix for each in files}
    if len(suffixes) != 1 or not suffixes <= {*TABLES}:
        raise InvalidTable(path, f"give files of one kind, whose names end in {', '.join(TABLES)}")
    if suffixes == {".parquet"}:
        return _ParquetRows(path, files, names)
    read = _csv_rows if suffixes == {".csv"} else _json_rows
    found: dict[str, Attributes] = {}
    for file in files:
        for number, row in enumerate(read(file), 1):
            name = str(row[ID])
            if name in found:
                raise InvalidTable(file, f"`{name}` stands there twice, again as row {number}")
            found[name] = {each: row[each] for each in names & row.keys()}
    _check_present(path, names, {each for row in found.values() for each in row})
    return found


def _check_present(path: Path, names: frozenset[str], present: Iterable[str]) -> None:
    """What nobody has is a mistake in the table, or in what it is said to provide."""
    if missing := sorted(names - set(present)):
        raise InvalidTable(path, f"column `{missing[0]}`: no row has this attribute")


def _json_rows(path: Path) -> Iterator[Attributes]:
    with path.open(encoding="utf-8") as lines:
        yield from _rows(path, (line for line in lines if line.strip()), read_json_line)


def _csv_rows(path: Path) -> Iterator[Attributes]:
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, strict=True)
        try:
            headings = next(rows, [])
            for name, kind in map(csv_column, headings):
                if kind not in CSV_KINDS:
                    problem = f"`{kind}` is no type: write one of {', '.join(CSV_KINDS)} after the colon"
                    raise InvalidTable(path, f"column `{name}`: {problem}")
            if ID not in [name for name, _ in map(csv_column, headings)]:
                raise InvalidTable(path, f"there is no column `{ID}`")
            read = csv_reader(headings)

            def read_row(row: list[str]) -> Attributes:
                if len(row) != len(headings):
                    raise InvalidRow(f"a row of another length: {shown(','.join(row))}")
                return read(dict(zip(headings, row, strict=True)))

            yield from _rows(path, (row for row in rows if row), read_row)
        except csv.Error as error:
            raise InvalidTable(path, f"row {rows.line_num}: {error}") from None


def _rows(path: Path, rows: Iterable[Row], read: Callable[[Row], Attributes]) -> Iterator[Attributes]:
    for number, row in enumerate(rows, 1):
        try:
            yield read(row)
        except InvalidRow as error:
            raise InvalidTable(path, f"row {number}: {error}") from None


class _ParquetRows(Mapping[str, Attributes]):
    """Rows of Parquet, kept in columns: an entity's attributes are put together when they are asked for."""

    def __init__(self, path: Path, files: list[Path], names: frozenset[str]) -> None:
        table = _read_parquet(path, files, names)
        ids = table.column(ID).to_pylist()
        self._rows = {name: row for row, name in enumerate(ids) if name}
        if len(self._rows) < len(ids):
            raise InvalidTable(path, "a row has no `id`, or a name stands there twice")
        self._columns = {name: table.column(name).combine_chunks() for name in sorted(names)}

    def __getitem__(self, name: str) -> Attributes:
        row = self._rows[name]
        values = {
            key: _plain(column[row].as_py(maps_as_pydicts="strict")) for key, column in self._columns.items()
        }
        return {key: value for key, value in values.items() if value is not None}

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _read_parquet(path: Path, files: list[Path], names: frozenset[str]) -> pa.Table:
    with needing("spark"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    columns = sorted({*names, ID})
    try:
        table = pa.concat_tables(pq.ParquetFile(each).read(columns) for each in files)
    except pa.ArrowException as error:
        raise InvalidTable(path, str(error).splitlines()[0]) from None
    for name in columns:
        if name not in table.column_names:
            raise InvalidTable(path, f"there is no column `{name}`")
        type_ = table.schema.field(name).type
        if not _is_json(type_):
            raise InvalidTable(path, f"column `{name}`: its type is {type_}: write it as text or numbers")
    if not pa.types.is_string(table.schema.field(ID).type):
        raise InvalidTable(path, f"column `{ID}`: names are text, not {table.schema.field(ID).type}")
    _check_present(path, names, (name for name in names if table.column(name).null_count < len(table)))
    return table


def _is_json(type_: pa.DataType) -> bool:
    """Whether values of this type are values that JSON has."""
    from pyarrow import types as t

    if t.is_dictionary(type_) or t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return _is_json(type_.value_type)
    if t.is_struct(type_):
        return all(_is_json(field.type) for field in type_)
    if t.is_map(type_):
        return bool(t.is_string(type_.key_type)) and _is_json(type_.item_type)
    plain = (t.is_null, t.is_string, t.is_large_string, t.is_boolean, t.is_integer, t.is_floating)
    return any(each(type_) for each in plain)


def _plain(value: object) -> object:
    """A table cannot tell a null in an object from a missing name: it is missing."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, list) else value
