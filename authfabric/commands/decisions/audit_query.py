"""`authfabric audit query`: the audit trail as tables, asked in SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from authfabric.files import CONNECT_SECONDS, find_url
from authfabric.terminal import Exit, Json, Url, counted, err, fail, print_json, printable, run, say_table
from bus.audit import AuditRecord, AuditStore, read_record
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN

TABLES = """
CREATE TABLE decisions (
    at REAL, writer TEXT, sequence INTEGER, subject TEXT, object TEXT, action TEXT, effect TEXT, reason TEXT,
    policies TEXT, release INTEGER, inferred TEXT, subject_attributes TEXT, object_attributes TEXT, context TEXT,
    release_hash TEXT
);
CREATE TABLE gaps (at REAL, writer TEXT, sequence INTEGER, dropped INTEGER);
"""
"""What can be asked about. Times are in Unix time; lists and attributes are JSON."""
ROWS_AT_ONCE = 5000
"""Rows that are written together."""
_STEPS = 100_000
"""Steps of a question between two looks whether it has taken too long."""
_MOST_STEPS = 20_000
"""How often it is looked: a question may take so many times those steps."""


def query(
    question: Annotated[
        str,
        typer.Argument(metavar="SQL", help="For instance: select effect, count(*) from decisions group by 1"),
    ],
    export: Annotated[
        Path | None,
        typer.Option(help="Keep the tables in this SQLite file; if it is there already, ask that one."),
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain in which they were given.")] = DEFAULT_DOMAIN,
    url: Url = None,
    json: Json = False,
) -> None:
    """Ask in SQL about what was decided: the tables `decisions` and `gaps`.

    The audit stream is exported into SQLite first, in memory or into a file. The question may read and nothing else.
    """
    known = export is not None and export.exists()
    try:
        with sqlite3.connect(":memory:" if export is None else export) as tables:
            if not known:
                tables.executescript(TABLES)
                count = run(_export(find_url(url), domain, tables))
                if not json:
                    err.print(f"{counted(count, 'record')} exported", highlight=False)
                tables.commit()
            headings, rows = ask(tables, question)
    except sqlite3.Error as error:
        fail(f"the question cannot be answered: {error}", Exit.USAGE)
    if json:
        print_json([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        say_table(headings, [[printable(str(value)) for value in row] for row in rows])


async def _export(url: str, domain: str, tables: sqlite3.Connection) -> int:
    count, records = 0, list[AuditRecord]()
    async with connect(url, name="audit", connect_seconds=CONNECT_SECONDS) as bus:
        store = AuditStore(bus, domain)
        async for page in store.read((await store.kept()).start - 1):
            records += filter(None, map(read_record, page.records))
            if len(records) >= ROWS_AT_ONCE:
                count += fill(tables, records)
                records = []
    return count + fill(tables, records)


def fill(tables: sqlite3.Connection, records: Iterable[AuditRecord]) -> int:
    """Write records into the tables; says how many."""
    decided, gaps = [], []
    for each in records:
        key = (each.at, each.writer, each.sequence)
        if each.dropped:
            gaps.append((*key, each.dropped))
        if each.request is None or each.decision is None:
            continue
        request, decision = each.request, each.decision
        decided.append(
            (
                *key,
                request.subject.id,
                request.object.id,
                request.action.id,
                str(decision.effect),
                str(decision.reason),
                _json(decision.policies),
                decision.epoch,
                "" if decision.inferred is None else str(decision.inferred.method),
                _json(request.subject.attributes),
                _json(request.object.attributes),
                _json(request.context),
                each.release.hex(),
            )
        )
    tables.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", decided)
    tables.executemany("INSERT INTO gaps VALUES (?, ?, ?, ?)", gaps)
    return len(decided) + len(gaps)


def ask(tables: sqlite3.Connection, question: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Headings and rows. Raises sqlite3.Error, also for a question that would write, or takes too long."""
    looked = 0

    def over() -> bool:
        nonlocal looked
        looked += 1
        return looked > _MOST_STEPS

    tables.execute("PRAGMA query_only = ON")
    tables.set_progress_handler(over, _STEPS)
    found = tables.execute(question)
    return [each[0] for each in found.description or ()], found.fetchall()


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
