"""`authfabric context`: the tables that rules look things up in."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from authfabric.files import (
    FileRefused,
    NetworkKey,
    find_url,
    own_identity,
    read_file,
    read_network_key,
    trusted_keys,
)
from authfabric.terminal import (
    Exit,
    Json,
    Url,
    fail,
    print_json,
    printable,
    run,
    say,
    say_table,
    with_option_types,
)
from authz import AuthFabricError, Identity, PublicKey
from authz.errors import InvalidKey
from authz.predicate import Scalar
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pep.trust import read_keys
from pubsub_core.rules import InvalidTable, Rows, changed
from pubsub_core.stores import TableStore

app = typer.Typer(help="The tables that rules look things up in.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")]
Domain = Annotated[str, typer.Option(help="The domain whose brokers look things up.")]


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes tables, and where."""

    key: Annotated[
        Path | None,
        typer.Option(
            "--key", help="The key file of whoever releases the domain's policies. Default: your own."
        ),
    ] = None
    trust: Annotated[
        list[str] | None,
        typer.Option("--trust", metavar="KEY|FILE", help="Who else may have signed the table. Repeatable."),
    ] = None
    domain: Domain = DEFAULT_DOMAIN
    network_key: NetworkKey = None
    url: Url = None

    def change(self, table: str, change: Callable[[Rows | None], Rows | None], anew: bool = False) -> Rows:
        """Sign a table with what is changed in it, none being no table; `anew` it is another, whatever was there."""
        return run(self._change(own_identity(self.key), table, change, anew))

    async def _change(
        self, signer: Identity, table: str, change: Callable[[Rows | None], Rows | None], anew: bool
    ) -> Rows:
        trusted = {signer.public, *read_keys(self.trust or [])}
        async with connect(find_url(self.url), name="context") as bus:
            store = TableStore(bus, self.domain, trusted, read_network_key(self.network_key))
            await store.refresh()
            if table in store.left_out and not anew:
                remedy = "name who signed it by `--trust`, or put a whole one in its place by `context load`"
                raise InvalidTable(table, f"is left as it is, since {store.left_out[table]}: {remedy}")
            rows = change(store.tables.get(table))
            if rows is None:
                await store.remove(table, signer)
            else:
                await store.put(table, rows, signer)
        return rows or {}


@dataclass(frozen=True, slots=True)
class Readable:
    """Which tables are read, and where."""

    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust", metavar="KEY|FILE", help="Whose tables count. Repeatable. Default: your own."
        ),
    ] = None
    domain: Domain = DEFAULT_DOMAIN
    network_key: NetworkKey = None
    url: Url = None

    def tables(self) -> dict[str, Rows]:
        """The tables that count, by name."""
        return run(self._tables(trusted_keys(self.trust)))

    async def _tables(self, trusted: Collection[PublicKey]) -> dict[str, Rows]:
        async with connect(find_url(self.url), name="context") as bus:
            store = TableStore(bus, self.domain, trusted, read_network_key(self.network_key))
            await store.refresh()
        return store.tables


@app.command("set")
@with_option_types
def set_row(
    *,
    table: Name,
    row: Annotated[str, typer.Argument(metavar="ROW", help="The row's key.")],
    columns: Annotated[
        list[str], typer.Argument(metavar="COLUMN=VALUE...", help="Without a value, the column is taken out.")
    ],
    author: Author,
    json: Json = False,
) -> None:
    """Set columns of one row. Brokers heed it with the next event."""
    with _errors():
        values = dict(_column(table, each) for each in columns)
        rows = author.change(table, lambda rows: changed(rows or {}, row, values))
    _say_size(table, rows, json)


@app.command()
@with_option_types
def load(
    *,
    table: Name,
    file: Annotated[Path, typer.Argument(help="CSV whose first column is the key, with a line of names.")],
    author: Author,
    json: Json = False,
) -> None:
    """Put a whole table in place of what there was."""
    with _errors():
        rows = read_file(file, read_rows)
        author.change(table, lambda _: rows, anew=True)
    _say_size(table, rows, json)


@app.command()
@with_option_types
def remove(
    *,
    table: Name,
    row: Annotated[
        str | None, typer.Argument(metavar="[ROW]", help="One row's key. Default: the whole table.")
    ] = None,
    author: Author,
    json: Json = False,
) -> None:
    """Take out a row, or a whole table: what depends on a table that is not there is withheld."""
    with _errors():
        rows = author.change(table, partial(_without, table, row))
    if row is not None:
        _say_size(table, rows, json)
    elif json:
        print_json({"table": table, "removed": True})
    else:
        say(f"`{printable(table)}` is removed")


@app.command()
@with_option_types
def get(
    *,
    table: Name,
    row: Annotated[str | None, typer.Argument(metavar="[ROW]", help="One row's key. Default: all.")] = None,
    readable: Readable,
    json: Json = False,
) -> None:
    """Show a table, as brokers see it."""
    with _errors():
        tables = readable.tables()
    if table not in tables or (row is not None and row not in tables[table]):
        fail(f"there is no {'table' if row is None else 'row'} `{row or table}`", Exit.DENIED)
    rows = {row: tables[table][row]} if row is not None else tables[table]
    if json:
        print_json(rows)
        return
    if not rows:
        say(f"`{printable(table)}` has no rows")
        return
    columns = list(dict.fromkeys(name for each in rows.values() for name in each))
    cells = [
        [name, *(str(each.get(column, "")) for column in columns)] for name, each in sorted(rows.items())
    ]
    say_table(["row", *map(printable, columns)], [list(map(printable, line)) for line in cells])


@app.command("list")
@with_option_types
def list_tables(
    *,
    readable: Readable,
    json: Json = False,
) -> None:
    """Say which tables there are, with how many rows."""
    with _errors():
        tables = readable.tables()
    if json:
        print_json({name: len(rows) for name, rows in sorted(tables.items())})
        return
    if not tables:
        say(f"the domain `{printable(readable.domain)}` has no tables that are rightly signed")
    for name, rows in sorted(tables.items()):
        say(f"{printable(name)}  {len(rows)}")


def _say_size(table: str, rows: Rows, json: bool) -> None:
    if json:
        print_json({"table": table, "rows": len(rows)})
    else:
        say(f"`{printable(table)}` has {len(rows)} row{'s' * (len(rows) != 1)}")


def _without(table: str, row: str | None, rows: Rows | None) -> Rows | None:
    """What is left of a table without a row; nothing without all of them. Raises InvalidTable."""
    if rows is None:
        raise InvalidTable(table, "is not there: `context list` shows those that are")
    if row is None:
        return None
    if row not in rows:
        raise InvalidTable(table, f"has no row `{row}`: `context get` shows those that it has")
    return {key: each for key, each in rows.items() if key != row}


def read_rows(text: str, source: str) -> Rows:
    """The rows of a CSV file. Raises InvalidTable."""
    first, *lines = list(csv.reader(text.splitlines())) or [[]]
    if len(first) < 2:
        raise InvalidTable(source, "must have a line of names: the key's, and at least one column's")
    found: Rows = {}
    for number, line in enumerate(lines, 2):
        if len(line) != len(first) or line[0] in found:
            raise InvalidTable(
                source, f"must have {len(first)} fields in line {number}, and a key of its own"
            )
        pairs = zip(first[1:], line[1:], strict=True)
        found[line[0]] = {name: _value(value) for name, value in pairs if value}
    return found


def _column(table: str, text: str) -> tuple[str, Scalar | None]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise InvalidTable(table, f"has columns with values: write `{name or 'column'}=value`, not `{text}`")
    return name, _value(value) if value else None


def _value(text: str) -> Scalar:
    """A number or a boolean if it reads like one; anything else is text."""
    try:
        value = msgspec.json.decode(text, type=int | float | bool | str)
    except msgspec.DecodeError:
        return text
    return value


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (InvalidTable, FileRefused, InvalidKey) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
