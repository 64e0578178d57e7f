"""Tables of entities and requests: where the column of a path comes from, in Arrow tables or in JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from authz import Entity
from authz.predicate import Path
from authz.predicate.values import dig
from authz.request import Attributes
from pdp.bundle import ID
from spark_eval.columns.column import EXACT, Codes, Column, Lists, Values
from spark_eval.errors import EvaluationError


class UnreadableColumn(EvaluationError):
    """A column whose values are nothing that JSON has: `type` says what they are."""

    def __init__(self, column: str, type_: str) -> None:
        super().__init__(f"the column `{column}` is of the type {type_}: write it as text or numbers")
        self.column = column
        self.type = type_


class Source(Protocol):
    """Where the columns of one root come from. Without keys it is the entity's own name."""

    def column(self, keys: tuple[str | int, ...]) -> Column: ...


class Table:
    """Rows that predicates are asked about: for each root of a path, where its columns come from."""

    def __init__(self, rows: int, sources: Mapping[str, Source]) -> None:
        self.rows = rows
        self._sources = sources
        self._columns: dict[Path, Column] = {}

    def column(self, path: Path) -> Column:
        column = self._columns.get(path)
        if column is None:
            column = self._columns[path] = self._sources[path.root].column(path.keys)
        return column

    def cross(self, other: Table) -> Table:
        """Each row of this table beside each row of the other, whose rows change faster."""
        here = np.repeat(np.arange(self.rows), other.rows)
        there = np.tile(np.arange(other.rows), self.rows)
        sources: dict[str, Source] = {root: _Picked(self, root, here) for root in self._sources}
        sources |= {root: _Picked(other, root, there) for root in other._sources}
        return Table(self.rows * other.rows, sources)


class _Picked:
    """Columns of another table, in the order of the rows picked there."""

    def __init__(self, table: Table, root: str, rows: Codes) -> None:
        self._table = table
        self._root = root
        self._rows = rows

    def column(self, keys: tuple[str | int, ...]) -> Column:
        return self._table.column(Path(self._root, keys)).take(self._rows)


class JsonSource:
    """Entities as they stand in requests and JSON files: names, and objects of attributes."""

    def __init__(self, attributes: Sequence[Attributes], names: Sequence[str] = ()) -> None:
        self._attributes = attributes
        self._names = names

    def column(self, keys: tuple[str | int, ...]) -> Column:
        if not keys:
            return Column.of(self._names)
        return Column.of(dig(each, keys) for each in self._attributes)


class ArrowSource:
    """Entities as a typed table: a column of names, and one for each attribute. Null is missing."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def column(self, keys: tuple[str | int, ...]) -> Column:
        """Raises UnreadableColumn for a type that no JSON value has."""
        name, *steps = keys or (ID,)
        if name not in self._table.column_names:
            return _missing(self._table.num_rows)
        try:
            return _dig(self._table.column(name).combine_chunks(), tuple(steps))
        except _NoJson as error:
            raise UnreadableColumn(str(name), str(error)) from None


@dataclass(frozen=True, slots=True)
class Derivation:
    """Attributes that are read from an entity's name and some of its attributes."""

    attributes: tuple[str, ...]
    read: Callable[[Entity], Attributes]


class DerivedSource:
    """Entities with what is derived from those of another source."""

    def __init__(self, source: Source, derivation: Derivation) -> None:
        self._source = source
        self._derivation = derivation

    def column(self, keys: tuple[str | int, ...]) -> Column:
        return self._derived.column(keys)

    @cached_property
    def _derived(self) -> JsonSource:
        names, *columns = (
            self._source.column(keys).rows()
            for keys in ((), *((each,) for each in self._derivation.attributes))
        )
        attributes = self._derivation.attributes
        entities = (
            Entity(str(name), dict(zip(attributes, values, strict=True)))
            for name, *values in zip(names, *columns, strict=True)
        )
        return JsonSource([self._derivation.read(entity) for entity in entities])


class _NoJson(Exception):
    """An Arrow type without counterpart in JSON."""


def _missing(rows: int) -> Column:
    return Column(np.full(rows, -1), Values())


def _dig(array: pa.Array, steps: tuple[str | int, ...]) -> Column:
    """Follow names through structs and positions through lists."""
    if not steps:
        return _column(array)
    step, type_ = steps[0], array.type
    if pa.types.is_struct(type_) and isinstance(step, str):
        known = type_.get_field_index(step) >= 0
        return _dig(pc.struct_field(array, step), steps[1:]) if known else _missing(len(array))
    if _is_list(type_) and isinstance(step, int):
        return _dig(_element(array, step), steps[1:])
    if pa.types.is_map(type_):
        return Column.of(dig(each, steps) for each in _objects(array))
    return _missing(len(array))


def _element(array: pa.ListArray, position: int) -> pa.Array:
    """What stands at this position in each list, null where a list is too short."""
    lengths = pc.fill_null(array.value_lengths(), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    at = position if position >= 0 else lengths + position
    outside = (at < 0) | (at >= lengths)
    return array.flatten().take(pa.array(starts + at, mask=outside))


def _column(array: pa.Array) -> Column:
    type_ = array.type
    if pa.types.is_dictionary(type_):
        return _column(array.dictionary_decode())
    if pa.types.is_null(type_):
        return _missing(len(array))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        codes, texts = _distinct(array.cast(pa.string()))
        return Column(codes, Values(texts))
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return _scalars(*_distinct(array))
    if _is_list(type_):
        return _lists(array)
    if pa.types.is_struct(type_) or pa.types.is_map(type_):
        return Column.of(_objects(array))
    raise _NoJson(str(type_))


def _is_list(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)
    )


def _distinct(array: pa.Array) -> tuple[Codes, pa.Array]:
    encoded = array.dictionary_encode()
    codes: Codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary


def _scalars(codes: Codes, distinct: pa.Array) -> Column:
    if not pa.types.is_boolean(distinct.type):
        numbers = distinct.to_numpy(zero_copy_only=False)
        if (np.abs(numbers) <= EXACT).all():  # never so with NaN among them
            return Column(codes, Values(numbers=numbers.astype(np.float64)))
    return Column.of([*distinct.to_pylist(), None]).take(codes)  # the number -1 finds the None


def _lists(array: pa.Array) -> Column:
    present = pc.is_valid(array).to_numpy(zero_copy_only=False)
    lists = array.filter(pc.is_valid(array))
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = _column(lists.flatten())
    codes = np.where(present, np.cumsum(present) - 1, -1)
    return Column(codes, Values(lists=Lists(parents, elements, lambda: _objects(lists), len(lists))))


def _objects(array: pa.Array) -> list[object]:
    """The values in Python. A table cannot tell a null in an object from a missing name: it is missing."""
    return [_plain(each) for each in array.to_pylist(maps_as_pydicts="strict")]


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, list) else value
