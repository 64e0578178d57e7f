"""`authfabric domain trust`: whose word counts in a domain, about releases and about who may decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from authfabric.deployment import NodeFolders
from authfabric.terminal import Exit, Json, fail, print_json, say
from authz import AuthFabricError, PublicKey
from authz.errors import InvalidKey
from pdp.access import DomainFolder
from pep.trust import read_keys

app = typer.Typer(
    help="Whose word counts in a domain, besides its own: about releases, and about who may decide.",
    no_args_is_help=True,
)

Folder = Annotated[Path, typer.Argument(help="The domain's folder.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY|FILE...", help="Keys, or files of keys.")]


@app.command("list")
def list_(folder: Folder, json: Json = False) -> None:
    """Show whose word counts."""
    _say(_changed(folder, lambda trusted: trusted), json)


@app.command()
def add(folder: Folder, keys: Keys, json: Json = False) -> None:
    """Let the word of more keys count, in credentials that are written from now on."""
    _say(_changed(folder, lambda trusted: trusted | read_keys(keys)), json)
    _say_when(json)


@app.command()
def remove(folder: Folder, keys: Keys, json: Json = False) -> None:
    """Let the word of keys count no more. Members go by the credentials that they have: grant them anew."""
    _say(_changed(folder, lambda trusted: trusted - _known(trusted, read_keys(keys))), json)
    _say_when(json)


def _known(trusted: frozenset[PublicKey], keys: frozenset[PublicKey]) -> frozenset[PublicKey]:
    if missing := keys - trusted:
        raise InvalidKey(f"`{min(map(str, missing))}` is not among those trusted: see `domain trust list`")
    return keys


def _changed(folder: Path, change: Callable[[frozenset[PublicKey]], frozenset[PublicKey]]) -> DomainFolder:
    try:
        opened = DomainFolder.open(folder)
        before = frozenset(map(PublicKey.parse, opened.file.trust))
        after = change(before)
        if after == before:
            return opened
        changed = opened.trusting(after)
        if (folders := NodeFolders.of(changed)) is not None:
            folders.refresh()
        return changed
    except AuthFabricError as error:
        fail(error, Exit.USAGE)


def _say(opened: DomainFolder, json: bool) -> None:
    if json:
        print_json({"name": opened.file.name, "owner": opened.file.owner, "trust": opened.file.trust})
        return
    for key in (f"{opened.file.owner} (the domain's own)", *opened.file.trust):
        say(key)


def _say_when(json: bool) -> None:
    if not json:
        say("restart its services, and grant members anew: each goes by the credentials that it has")
