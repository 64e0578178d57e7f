"""`authfabric history rekey`: another key for a history, and everything that is kept sealed anew by it."""

from __future__ import annotations

import secrets
from typing import Annotated

import typer
from rich.progress import Progress

from authfabric.commands.history.history_store import KeptHistory
from authfabric.files import (
    KEY_BYTES,
    history_key_path,
    read_history_keys,
    write_history_keys,
)
from authfabric.terminal import Json, counted, err, fail, print_json, say, with_option_types
from authz import AuthFabricError


@with_option_types
def rekey(
    *,
    source: KeptHistory,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            help="Only add the key to the file: to copy it to other machines first, whose brokers share the history.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Give a history another key, and seal everything anew by it; the key of before opens nothing then.

    Brokers may be running meanwhile. What was broken off goes on with the key that was made then.
    """
    path, done = source.history_key or history_key_path(source.owner), 0
    try:
        with source.open() as store:
            total = sum(each.events for each in store.stats().values())
        keys = read_history_keys(path)
        if len(keys) == 1:
            keys = (*keys, secrets.token_bytes(KEY_BYTES))
            write_history_keys(path, keys)
        if not prepare:
            with (
                source.open() as store,
                Progress(console=err, transient=True, disable=json or not err.is_terminal) as bar,
            ):
                task = bar.add_task("sealing", total=total)
                for done in store.rekey():
                    bar.update(task, completed=done)
            write_history_keys(path, keys[-1:])
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json({"sealed": done, "key_file": str(path), "prepared": prepare})
    elif prepare:
        say(
            f"{path} has another key: copy it to whoever shares the history, and run this without `--prepare`"
        )
    else:
        say(f"[green]sealed[/] {counted(done, 'event')} anew; {path} has the new key alone")
