"""`authfabric policy`: check, test, compare, build, push, list and roll back policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands import comparing, linting, release
from authfabric.commands.linting import Folder
from authfabric.commands.release import Key
from authfabric.keys import own_identity
from authfabric.policies import read_tested
from authfabric.terminal import Json, fail, out, print_json
from authz import AuthFabricError
from pdp.bundle_store import write_whole
from pdp.check import examine
from pdp.policy_set import PolicySet

app = typer.Typer(
    help="Check, test, compare, build, push, list and roll back policies.", no_args_is_help=True
)
app.command("check")(linting.check)
app.command("test")(linting.run_tests)
app.command("diff")(comparing.diff)
app.command("push")(release.push)
app.command("list")(release.list_)
app.command("rollback")(release.rollback)


@app.command()
def build(
    folder: Folder,
    output: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    key: Key = None,
    json: Json = False,
) -> None:
    """Pack and sign a folder of policies into one file that `policy push` takes."""
    try:
        bundle = read_tested(folder, ())
        examine(bundle, PolicySet.read(bundle))
        identity = own_identity(key)
        write_whole(output, bundle.sign(identity))
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json({"bundle": bundle.hash, "files": len(bundle.files), "signer": str(identity.public)})
    else:
        files = "1 file" if len(bundle.files) == 1 else f"{len(bundle.files)} files"
        out.print(f"bundle [bold]{bundle.hash[:12]}[/]: {files} in {output}", highlight=False)


@app.command()
def key(
    file: Annotated[Path | None, typer.Option("--key", help="Another private key than your own.")] = None,
    json: Json = False,
) -> None:
    """Print the public key that your policies are signed with, for others to trust."""
    try:
        identity = own_identity(file)
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json({"key": str(identity.public)})
    else:
        out.print(str(identity.public), highlight=False)
