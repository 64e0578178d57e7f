"""`authfabric history`: see what a broker has kept, forget what is old, verify it, and find out who could read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, TaskID

from authfabric.commands.history import history_exposure
from authfabric.commands.history.history_rekey import rekey
from authfabric.commands.history.history_store import KeptHistory
from authfabric.terminal import (
    Exit,
    Json,
    counted,
    err,
    fail,
    option_seconds,
    print_json,
    printable,
    say,
    say_table,
    with_option_types,
)
from pubsub_core.history import REPLACED, HistoryDamaged, Keeping

if TYPE_CHECKING:
    from pubsub_core.history import HistoryStore, Stats

app = typer.Typer(help="What brokers have kept of the events that were published.", no_args_is_help=True)

app.command("exposure")(history_exposure.exposure)
app.command("rekey")(rekey)

PRUNE_ROWS = 5_000
"""Maximum events deleted in one transaction: a running broker writes between two."""

Type = Annotated[str, typer.Option("--type", help="Only this type, by name or UUID.")]


@app.command()
@with_option_types
def stats(*, source: KeptHistory, json: Json = False) -> None:
    """Show how many events are kept of each type, from when to when, and for how long.

    It counts what this database holds. An event whose broker was lost before it could say that it is kept may be in the
    history of another broker too; a replay brings it once.
    """
    with source.open() as store:
        found, kept = store.stats(), store.kept
    if json:
        print_json(
            {
                "types": [
                    {
                        "type": type_,
                        "name": kept[type_].name,
                        "events": each.events,
                        "oldest": each.oldest,
                        "newest": each.newest,
                        "keep_seconds": kept[type_].seconds,
                        "searched": kept[type_].searched,
                    }
                    for type_, each in found.items()
                ]
            }
        )
    elif not found:
        say("nothing is kept yet")
    else:
        say_table(("type", "events", "oldest", "newest", "kept for"), _rows(found, kept))


@app.command()
@with_option_types
def prune(
    *,
    older_than: Annotated[
        str, typer.Option("--older-than", help="A length of time such as 90d, 12h or 30m.")
    ],
    type_: Type = "",
    source: KeptHistory,
    json: Json = False,
) -> None:
    """Forget events that were published longer ago than this, and without --type when fluents held before.

    A broker may be running meanwhile.
    """
    from pubsub_core.history import superfluous  # what else the commands do needs no rules

    seconds = option_seconds("--older-than", older_than)
    gone: dict[str, int] = {}
    with source.open() as store, _progress("forgetting", json) as (bar, task):
        before = time() - seconds
        for id_ in _types(store, type_):
            gone[id_] = 0
            while count := store.prune(id_, before, PRUNE_ROWS):
                gone[id_] += count
                bar.update(task, advance=count)
        marks = 0 if type_ else store.forget_marks(superfluous(store.marks(), before))
        named = {_name(store.kept, id_): count for id_, count in gone.items()}
    if json:
        print_json({"forgotten": named, "marks": marks})
    else:
        context = f", and {marks:,} changes of context" if marks else ""
        say(f"forgot {counted(sum(named.values()), 'event')}{context}")


@app.command()
@with_option_types
def verify(
    *,
    type_: Type = "",
    source: KeptHistory,
    json: Json = False,
) -> None:
    """Open every event and follow the chain of each type; exit code 1 if anything was altered, taken out or put in."""
    found: dict[str, tuple[int, str]] = {}
    with source.open() as store, _progress("verifying", json) as (bar, task):
        bar.update(task, total=sum(each.events for each in store.stats().values()))
        for id_ in _types(store, type_):
            found[_name(store.kept, id_)] = _verified(store, id_, bar, task)
    damaged = any(problem for _, problem in found.values())
    if json:
        types = [{"name": name, "events": count, "problem": why} for name, (count, why) in found.items()]
        print_json({"holds": not damaged, "types": types})
    else:
        for name, (count, problem) in found.items():
            whole = f"[green]holds[/], {counted(count, 'event')}"
            state = f"[red]damaged[/]: {printable(problem)}" if problem else whole
            say(f"[bold]{printable(name)}[/]: {state}")
        if not found:
            say("nothing is kept yet")
    if damaged:
        raise typer.Exit(Exit.DENIED)


def _verified(store: HistoryStore, type_: str, bar: Progress, task: TaskID) -> tuple[int, str]:
    """How many events hold, and what is wrong with the next."""
    seen = 0
    try:
        for count in store.verify(type_):
            bar.update(task, advance=count - seen)
            seen = count
    except HistoryDamaged as error:
        return seen, str(error)
    return seen, ""


def _types(store: HistoryStore, wanted: str) -> list[str]:
    named = {id_: (id_, each.name, each.name.removesuffix(REPLACED)) for id_, each in store.kept.items()}
    found = [id_ for id_, names in named.items() if wanted in ("", *names)]
    if wanted and not found:
        fail(
            f"nothing is kept of a type `{wanted}`: `authfabric history stats` lists those there are",
            Exit.USAGE,
        )
    return found


@contextmanager
def _progress(doing: str, json: bool) -> Iterator[tuple[Progress, TaskID]]:
    """What shows how far the work has come, on a terminal."""
    with Progress(console=err, transient=True, disable=json or not err.is_terminal) as bar:
        yield bar, bar.add_task(doing, total=None)


def _name(kept: Mapping[str, Keeping], type_: str) -> str:
    return kept[type_].name or type_


def _rows(found: Mapping[str, Stats], kept: Mapping[str, Keeping]) -> Iterator[tuple[str, ...]]:
    for type_, each in found.items():
        name, seconds = printable(_name(kept, type_)), kept[type_].seconds
        length = "ever" if seconds is None else str(timedelta(seconds=seconds))
        yield name, f"{each.events:,}", _when(each.oldest), _when(each.newest), length


def _when(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
