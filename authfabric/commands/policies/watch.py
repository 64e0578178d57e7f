"""`authfabric policy watch` and `schema`: policies checked and tested while one writes them."""

from __future__ import annotations

import json as json_
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Annotated

import typer

from authfabric.commands.policies.check import Folder, check, run_tests
from authfabric.terminal import fail, out
from authz import AuthFabricError
from pdp.abac import policy_schema
from pdp.bundle import read_cases, write_whole

LOOK_SECONDS = 0.3
"""How often the files are looked at."""


def watch(
    folder: Folder,
    once: Annotated[bool, typer.Option("--once", help="Check and test once, and end.")] = False,
) -> None:
    """Check and test policies, and again whenever a file of the folder changes, until interrupted."""
    if not folder.is_dir():
        fail(AuthFabricError(f"`{folder}` is no folder"))
    seen: dict[Path, float] | None = None
    while True:
        found = _changes(folder)
        if found != seen:
            seen = found
            right = _look(folder)
            if once:
                raise typer.Exit(0 if right else 1)
        try:
            sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            raise typer.Exit(0) from None


def schema(
    output: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write. Default: the terminal.")
    ] = None,
) -> None:
    """Print the JSON Schema of attribute policies, by which editors complete and check them."""
    text = json_.dumps(policy_schema(), indent=2) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        write_whole(output, text.encode())
    except OSError as error:
        fail(AuthFabricError(f"`{output}` cannot be written: {error.strerror}"))
    out.print(f"schema in {output}", highlight=False)


def _changes(folder: Path) -> dict[Path, float]:
    """When each file was written last."""
    found: dict[Path, float] = {}
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                found[path] = path.stat().st_mtime
        except OSError:  # it is just being replaced
            found[path] = 0.0
    return found


def _look(folder: Path) -> bool:
    """Check, and test what is right if there are cases; say what is wrong, and go on. Whether nothing is."""
    out.rule(f"{datetime.now():%H:%M:%S} {folder}")
    if not _goes_well(lambda: check(folder)):
        return False
    try:
        cases = bool(read_cases(folder))
    except AuthFabricError:
        cases = False
    return _goes_well(lambda: run_tests(folder)) if cases else True


def _goes_well(command: object) -> bool:
    assert callable(command)
    try:
        command()
    except (typer.Exit, SystemExit) as ended:
        return not (ended.exit_code if isinstance(ended, typer.Exit) else ended.code)
    return True
