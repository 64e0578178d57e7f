"""Other ways to decide in bulk: DuckDB and Polars, each in the formulations that suit it, and a function per row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from authz import Entity, Request
from authz.decision import Effect
from authz.predicate import And, Equal, In, Order, Predicate, Relate
from pdp.abac import AbacSource, Algorithm, Policy
from pdp.engine import Engine

Counts: TypeAlias = npt.NDArray[np.int64]
"""For each permission, how many subjects are allowed it: what all must agree on."""
Way: TypeAlias = Callable[[], Counts]
Words: TypeAlias = npt.NDArray[np.uint64]
"""Masks, two words to a row."""

_MATCH = "(s.a & p.a) <> 0 OR (s.b & p.b) <> 0"


def duckdb_masks(subjects: Words, permissions: Words) -> dict[str, Way]:
    """Role masks: all pairs; first the classes of equal masks on both sides; a bitmap of subjects for each role, or of
    their classes, whose sizes are added up digit by digit, as ours are.
    """
    connection = duckdb.connect()
    connection.register("given_s", _table(subjects))
    connection.register("given_p", _table(permissions))
    connection.execute("CREATE TABLE s AS SELECT * FROM given_s; CREATE TABLE p AS SELECT * FROM given_p")
    pairs = f"SELECT p.row, count(*) FILTER (WHERE {_MATCH}) AS n FROM p CROSS JOIN s GROUP BY p.row"
    classes = f"""
        WITH s AS (SELECT a, b, count(*) AS size FROM s GROUP BY a, b),
             c AS (SELECT a, b FROM p GROUP BY a, b),
             n AS (SELECT p.a, p.b, sum(s.size) AS n FROM c AS p JOIN s ON {_MATCH} GROUP BY p.a, p.b)
        SELECT p.row, coalesce(n.n, 0)::BIGINT AS n FROM p LEFT JOIN n ON p.a = n.a AND p.b = n.b"""
    for name, side in (("held", subjects), ("granted", permissions)):
        connection.register(f"given_{name}", _bits(side))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")
    bitmaps = f"""
        WITH b AS MATERIALIZED (SELECT bit, bitstring_agg(row, 0, {len(subjects) - 1}) AS who FROM held GROUP BY bit)
        SELECT g.row, bit_count(bit_or(b.who)) AS n FROM granted AS g JOIN b USING (bit) GROUP BY g.row"""
    ways: dict[str, Way] = {
        name: partial(_query, connection, query, len(permissions))
        for name, query in (("pairs", pairs), ("classes", classes), ("bitmaps", bitmaps))
    }
    return {**ways, "class_bitmaps": partial(_class_bitmaps, connection, len(permissions))}


def _class_bitmaps(connection: duckdb.DuckDBPyConnection, permissions: int) -> Counts:
    connection.execute("""
        CREATE OR REPLACE TEMP TABLE c AS
        SELECT count(*) AS size, min(row) AS row, row_number() OVER () - 1 AS id FROM s GROUP BY a, b""")
    ((classes, most),) = connection.sql("SELECT count(*), max(size) FROM c").fetchall()
    digits = range(int(most).bit_length())
    having = ", ".join(
        f"(SELECT bitstring_agg(id, 0, {classes - 1}) FROM c WHERE (size & {1 << digit}) <> 0) AS d{digit}"
        for digit in digits
    )
    sizes = " + ".join(f"(coalesce(bit_count(m.who & w.d{d}), 0)::BIGINT << {d})" for d in digits)
    query = f"""
        WITH w AS MATERIALIZED (SELECT {having}),
             k AS MATERIALIZED (SELECT a, b, min(row) AS row FROM p GROUP BY a, b),
             b AS MATERIALIZED (SELECT bit, bitstring_agg(id, 0, {classes - 1}) AS who
                                FROM held JOIN c USING (row) GROUP BY bit),
             m AS (SELECT g.row, bit_or(b.who) AS who
                   FROM granted AS g JOIN k USING (row) JOIN b USING (bit) GROUP BY g.row),
             n AS (SELECT m.row, ({sizes})::BIGINT AS n FROM m, w)
        SELECT p.row, coalesce(n.n, 0)::BIGINT AS n
        FROM p JOIN k ON p.a = k.a AND p.b = k.b LEFT JOIN n ON n.row = k.row"""
    return _query(connection, query, permissions)


def polars_masks(subjects: Words, permissions: Words) -> dict[str, Way]:
    """All pairs, and the classes; there are no bitmaps."""
    s, p = (pl.DataFrame(_table(each)).lazy() for each in (subjects, permissions))
    match = ((pl.col("a") & pl.col("a_p")) != 0) | ((pl.col("b") & pl.col("b_p")) != 0)
    named = p.rename({"a": "a_p", "b": "b_p", "row": "row_p"})

    def pairs() -> Counts:
        found = s.join(named, how="cross").filter(match).group_by("row_p").len("n")
        return _filled(found.rename({"row_p": "row"}).collect(engine="streaming"), len(permissions))

    def classes() -> Counts:
        few = s.group_by("a", "b").len("size")
        kinds = named.select("a_p", "b_p").unique()
        sums = (
            few.join(kinds, how="cross")
            .filter(match)
            .group_by("a_p", "b_p")
            .agg(pl.col("size").sum().alias("n"))
        )
        found = named.join(sums, on=["a_p", "b_p"], how="inner").select(row="row_p", n="n")
        return _filled(found.collect(engine="streaming"), len(permissions))

    return {"pairs": pairs, "classes": classes}


def duckdb_policies(policies: Sequence[Policy], people: pa.Table, permissions: pa.Table) -> Way:
    """Attribute policies as one SQL expression over all pairs."""
    connection = duckdb.connect()
    connection.register("given_s", people)
    connection.register("given_p", permissions)
    connection.execute("CREATE TABLE s AS SELECT * FROM given_s; CREATE TABLE p AS SELECT * FROM given_p")
    allow, deny = (
        " OR ".join(f"({_sql(each.condition)})" for each in policies if each.effect is effect)
        for effect in (Effect.ALLOW, Effect.DENY)
    )
    query = f"""SELECT p.row, count(*) FILTER (WHERE ({allow}) AND NOT ({deny})) AS n
        FROM p CROSS JOIN s GROUP BY p.row"""
    return partial(_query, connection, query, len(permissions))


def polars_policies(policies: Sequence[Policy], people: pa.Table, permissions: pa.Table) -> Way:
    """The same as one Polars expression."""
    s, p = (_prefixed(each, root) for root, each in (("s", people), ("p", permissions)))
    allow, deny = (
        pl.any_horizontal(_expression(each.condition) for each in policies if each.effect is effect)
        for effect in (Effect.ALLOW, Effect.DENY)
    )
    found = s.join(p, how="cross").filter(allow & ~deny).group_by("row").len("n")
    return lambda: _filled(found.collect(engine="streaming"), len(permissions))


def row_function(
    spark: SparkSession, policies: Sequence[Policy], people: pa.Table, permissions: pa.Table
) -> Way:
    """A Spark function per row, over the compiled engine."""
    engine = Engine([AbacSource(policies, Algorithm.DENY_OVERRIDES)])

    @f.udf(returnType="boolean", useArrow=False)
    def allowed(s: dict[str, object], p: dict[str, object]) -> bool:
        object_ = {name: p[name] for name in ("dept", "kind", "secrecy")}
        subject = {name: s[name] for name in ("dept", "level", "city")}
        request = Request(Entity(s["id"], subject), Entity(p["id"], object_), Entity(p["action"]), {})  # type: ignore[arg-type]
        return engine.evaluate(request).allowed

    left = _struct(spark, people, "s").repartition(spark.sparkContext.defaultParallelism)
    pairs = left.crossJoin(_struct(spark, permissions, "p"))

    def count() -> Counts:  # from the beginning: Spark would not compute the same frame twice
        found = pairs.where(allowed("s", "p")).groupBy("p.row").count().withColumnRenamed("count", "n")
        return _filled(pl.DataFrame(found.toArrow()), len(permissions))

    return count


def _prefixed(table: pa.Table, root: str) -> pl.LazyFrame:
    frame = pl.DataFrame(table).lazy()
    return frame.rename({name: f"{root}.{name}" for name in table.column_names if name != "row"})


def _struct(spark: SparkSession, table: pa.Table, name: str) -> DataFrame:
    frame = spark.createDataFrame(table)
    return frame.select(f.struct(*frame.columns).alias(name)).localCheckpoint()


def _bits(masks: Words) -> pa.Table:
    """A row for each bit that is set."""
    rows, bits = np.nonzero(np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little"))
    return pa.table({"row": rows, "bit": bits})


def _table(masks: Words) -> pa.Table:
    return pa.table({"row": np.arange(len(masks)), "a": masks[:, 0], "b": masks[:, 1]})


def _query(connection: duckdb.DuckDBPyConnection, query: str, rows: int) -> Counts:
    return _filled(pl.DataFrame(connection.sql(query).to_arrow_table()), rows)


def _filled(found: pl.DataFrame, rows: int) -> Counts:
    """The counts in the order of the permissions; who is not there is allowed to nobody."""
    counts = np.zeros(rows, np.int64)
    counts[found["row"].to_numpy()] = found["n"].to_numpy()
    return counts


_SIDES = {"subject": "s", "object": "p"}


def _sql(condition: Predicate) -> str:
    match condition:
        case And():
            return " AND ".join(map(_sql, condition.terms))
        case Relate():
            return f"{_column(condition)} = p.{condition.other.keys[0]}"
        case In():
            return f"{_column(condition)} IN ({', '.join(map(_literal, condition.values))})"
        case Order():
            return f"{_column(condition)} {condition.op} {condition.value}"
        case Equal():
            return f"{_column(condition)} = {_literal(condition.value)}"
    raise TypeError(f"no benchmark uses {type(condition).__name__}")


def _column(condition: In | Order | Equal | Relate) -> str:
    path = condition.path
    return f"{_SIDES[path.root]}.{path.keys[0]}" if path.keys else "p.action"


def _literal(value: object) -> str:
    return f"'{value}'"


def _expression(condition: Predicate) -> pl.Expr:
    match condition:
        case And():
            return pl.all_horizontal(map(_expression, condition.terms))
        case Relate():
            return pl.col(_column(condition)) == pl.col(f"p.{condition.other.keys[0]}")
        case In():
            return pl.col(_column(condition)).is_in(list(condition.values))
        case Order():
            return pl.col(_column(condition)) >= condition.value
        case Equal():
            return pl.col(_column(condition)) == condition.value
    raise TypeError(f"no benchmark uses {type(condition).__name__}")


def agree(counts: Iterable[Counts]) -> bool:
    """Whether all have counted the same."""
    first, *others = counts
    return all(np.array_equal(first, each) for each in others)
