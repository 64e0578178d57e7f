"""Entities where Spark finds them: Parquet, CSV and JSON files, folders of them, and tables of the catalog."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from authz import Entity
from authz.request import Attributes
from pdp.bundle import CSV_KINDS, ID, csv_column
from spark_eval.columns import UnreadableColumn
from spark_eval.entities.gathering import Gathered, InvalidEntities, gather
from spark_eval.entities.mask_tasks import AttributeWork, MaskWork, RoleWork
from spark_eval.entities.reader import BROKEN, LINE, Form, line_batch
from spark_eval.runtime import Sessions, absolute, map_rows
from spark_eval.schemas import ATTRIBUTES, MASKS, ROLES

SPARK_ERRORS = (PySparkException, Py4JError)
PARQUET = b"PAR1"
"""How a Parquet file begins and ends."""
_NAMED = re.compile(r"\[([A-Z][A-Z_.]+)\] (.+)")
_JSON = (".json", ".jsonl", ".ndjson")


class Entities(Protocol):
    """Where the subjects, or the objects, come from."""

    @property
    def source(self) -> str: ...

    def masks(self, work: MaskWork, may_lack: Sequence[str] = ()) -> Gathered:
        """The entities under a plan. Raises InvalidEntities."""
        ...

    def roles(self) -> frozenset[str]:
        """The roles that any of them has."""
        ...

    def attributes(self, names: frozenset[str]) -> dict[str, Attributes]:
        """These attributes of each of them, by its own name."""
        ...

    def fingerprint(self) -> str:
        """Equal for two exactly if nothing has changed in between; empty if that cannot be known."""
        ...


@dataclass(frozen=True, slots=True)
class BundledEntities:
    """Those that the policies bring along."""

    source: str
    entities: Sequence[Entity]

    def masks(self, work: MaskWork, may_lack: Sequence[str] = ()) -> Gathered:
        batches = list(replace(work, form="json")([line_batch(self.entities)]))
        return gather(pa.Table.from_batches(batches, MASKS), work, self.source, may_lack)

    def roles(self) -> frozenset[str]:
        (found,) = RoleWork("json")([line_batch(self.entities)])
        return frozenset(found.column("role").to_pylist())

    def attributes(self, names: frozenset[str]) -> dict[str, Attributes]:
        return {
            each.id: {name: each.attributes[name] for name in names & each.attributes.keys()}
            for each in self.entities
        }

    def fingerprint(self) -> str:
        return hashlib.sha256(line_batch(self.entities).serialize()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredEntities:
    """Those in a file, a folder of files, or a table of the catalog: a name tells which."""

    source: str
    session: Sessions
    """Starts Spark, or gives the session that runs: it is not called before it is needed."""

    def masks(self, work: MaskWork, may_lack: Sequence[str] = ()) -> Gathered:
        opened = open_entities(self.session(), self.source)
        if opened.form == "columns":
            _check_types(opened, work)
        found = opened.gather(replace(work, form=opened.form), MASKS)
        return gather(found, work, self.source, may_lack)

    def roles(self) -> frozenset[str]:
        opened = open_entities(self.session(), self.source)
        return frozenset(opened.gather(RoleWork(opened.form), ROLES).column("role").to_pylist())

    def attributes(self, names: frozenset[str]) -> dict[str, Attributes]:
        opened = open_entities(self.session(), self.source)
        found = opened.gather(AttributeWork(opened.form, names), ATTRIBUTES)
        texts = found.column("attributes").to_pylist()
        return dict(zip(found.column("id").to_pylist(), map(msgspec.json.decode, texts), strict=True))

    def fingerprint(self) -> str:
        path = Path(self.source)
        if "://" in self.source or not path.exists():
            return ""
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        seen = [(str(each), (stat := each.stat()).st_size, stat.st_mtime_ns) for each in files]
        return hashlib.sha256(repr(seen).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class EntityFrame:
    """Entities as a DataFrame, and in which form their rows are."""

    source: str
    form: Form
    frame: DataFrame

    def gather(self, work: MaskWork | RoleWork | AttributeWork, schema: pa.Schema) -> pa.Table:
        """What the tasks hand back."""
        try:
            return map_rows(self.frame, work, schema).toArrow()
        except SPARK_ERRORS as error:
            raise InvalidEntities(self.source, 0, first_line(error)) from error


def open_entities(spark: SparkSession, source: str) -> EntityFrame:
    """The entities in a file, a folder or a table, going by the name. Raises InvalidEntities."""
    try:
        found = _open(spark, source)
        if found.form != "json":
            _check_columns(found)
    except SPARK_ERRORS as error:
        raise InvalidEntities(source, 0, first_line(error)) from error
    return found


def _open(spark: SparkSession, source: str) -> EntityFrame:
    suffix, path = _suffix(source), absolute(source)
    if suffix == ".parquet":
        return EntityFrame(source, "columns", spark.read.parquet(path))
    if suffix == ".csv":
        return EntityFrame(source, "csv", _read_csv(spark, path))
    if suffix in _JSON:
        return EntityFrame(source, "json", spark.read.text(path).where(f"trim({LINE}) <> ''"))
    if "/" not in source and spark.catalog.tableExists(source):
        return EntityFrame(source, "columns", spark.table(source))
    problem = "no such table, and no file whose name ends in .parquet, .csv, .json or .jsonl"
    raise InvalidEntities(source, 0, problem)


def _suffix(source: str) -> str:
    """What the name ends in; of a folder, what the names in it end in."""
    if "://" in source:
        return Path(source.rstrip("/")).suffix
    path = Path(source)
    if path.is_dir() and not path.suffix:
        return next(
            (each.suffix for each in sorted(path.rglob("*.*")) if not each.name.startswith((".", "_"))), ""
        )
    if path.suffix and not path.exists():
        raise InvalidEntities(source, 0, "there is no such file")
    if path.suffix == ".parquet" and path.is_file():
        _check_parquet(path)
    return path.suffix


def _check_parquet(path: Path) -> None:
    """Spark would say so in two hundred lines."""
    with path.open("rb") as file:
        if file.read(4) != PARQUET:
            raise InvalidEntities(str(path), 0, "that is no Parquet file")
        file.seek(max(0, path.stat().st_size - len(PARQUET)))
        if file.read() != PARQUET:
            raise InvalidEntities(str(path), 0, "that is the beginning of a Parquet file, without its end")


def _check_types(opened: EntityFrame, work: MaskWork) -> None:
    try:
        work.check(to_arrow_schema(opened.frame.schema))
    except UnreadableColumn as error:
        problem = f"its type is {error.type}: write it as text or numbers"
        raise InvalidEntities(opened.source, opened.frame.count(), problem, error.column) from None


def _read_csv(spark: SparkSession, source: str) -> DataFrame:
    """All text, and rows of another length than the heading in a column of their own."""
    headings = spark.read.csv(source, header=True, escape='"').columns
    fields = [t.StructField(heading, t.StringType()) for heading in (*headings, BROKEN)]
    return spark.read.csv(
        source,
        t.StructType(fields),
        header=True,
        escape='"',
        columnNameOfCorruptRecord=BROKEN,
        enforceSchema=False,
    )


def _check_columns(found: EntityFrame) -> None:
    columns = [each for each in found.frame.columns if each != BROKEN]
    names = [csv_column(each) if found.form == "csv" else (each, "") for each in columns]
    for name, kind in names:
        if kind and kind not in CSV_KINDS:
            problem = f"`{kind}` is no type: write one of {', '.join(CSV_KINDS)} after the colon"
            raise InvalidEntities(found.source, found.frame.count(), problem, name)
    if not names:
        raise InvalidEntities(found.source, 0, "there is nobody and nothing in it")
    if ID not in [name for name, _ in names]:
        problem = f"there is no such column among {', '.join(f'`{name}`' for name, _ in names)}"
        raise InvalidEntities(found.source, found.frame.count(), problem, ID)
    type_ = found.frame.schema[ID].dataType.simpleString() if found.form == "columns" else "string"
    if type_ != "string":
        raise InvalidEntities(found.source, found.frame.count(), f"names are text, not {type_}", ID)


def first_line(error: Exception) -> str:
    """What Spark says, without its stack: the line with its word for the error, or else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = next(filter(None, map(_NAMED.search, lines)), None)
    if named is not None:
        return f"{named[1]}: {named[2]}"
    return lines[0].removeprefix("[").replace("] ", ": ", 1) if lines else type(error).__name__
