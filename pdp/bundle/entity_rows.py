"""Entities in rows, as attribute files and jobs read them alike.

In CSV a column is text unless its heading says otherwise: `level:number`, `active:boolean`, `roles:json`. An empty cell
is an attribute that the entity does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from authz import AuthFabricError
from authz.predicate.values import is_number
from authz.request import Attributes

ID = "id"
"""The column with the names of entities; all others are their attributes."""


class InvalidRow(AuthFabricError):
    """A row that is no entity."""


_FITS: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "json": lambda value: True,
}
CSV_KINDS = tuple(_FITS)


def csv_column(heading: str) -> tuple[str, str]:
    """The name and the type that a heading gives."""
    name, _, kind = heading.partition(":")
    return name.strip(), kind.strip() or "string"


def csv_reader(headings: Sequence[str]) -> Callable[[Mapping[str, str | None]], Attributes]:
    """Reads rows under these headings, by heading: the name as `id`, and the attributes. Raises InvalidRow."""
    columns = {each: csv_column(each) for each in headings}

    def read(row: Mapping[str, str | None]) -> Attributes:
        found: Attributes = {}
        for heading, (name, kind) in columns.items():
            text = row[heading]
            if text is not None and text != "":
                found[name] = _read_cell(text, kind, name)
        return _named(found, ",".join(row[each] or "" for each in columns))

    return read


def read_json_line(line: str) -> Attributes:
    """A line of JSON: the name as `id`, and the attributes. Raises InvalidRow."""
    try:
        row = msgspec.json.decode(line)
    except msgspec.DecodeError:
        raise InvalidRow(f"no JSON: {shown(line)}") from None
    if not isinstance(row, dict):
        raise InvalidRow(f"no object: {shown(line)}")
    return _named(row, line)


def _named(row: Attributes, text: object) -> Attributes:
    name = row.get(ID)
    if not isinstance(name, str) or not name:
        raise InvalidRow(f"no text as `id`: {shown(text)}")
    return row


def _read_cell(text: str, kind: str, column: str) -> object:
    if kind == "string":
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = None
    if value is None or not _FITS[kind](value):
        raise InvalidRow(f"no {kind} in `{column}`: {shown(text)}")
    return value


def shown(value: object) -> str:
    """The beginning of a value, for a person."""
    text = str(value)
    return f"`{text[:60]}`" + ("..." if len(text) > 60 else "")
