"""`authfabric policy`: check, test, compare, build, push, list, roll back and restore policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from authfabric.commands.policies import check as linting
from authfabric.commands.policies import diff as comparing
from authfabric.commands.policies import push as release
from authfabric.commands.policies import restore as restoring
from authfabric.commands.policies import watch as watching
from authfabric.commands.policies.check import Folder
from authfabric.commands.policies.push import Key
from authfabric.files import own_identity
from authfabric.terminal import Json, fail, out, print_json
from authz import AuthFabricError
from pdp.bundle import PolicySet, write_whole
from pdp.lint import examine, read_tested

app = typer.Typer(
    help="Check, test, compare, build, push, list, roll back and restore policies.", no_args_is_help=True
)
app.command("check")(linting.check)
app.command("test")(linting.run_tests)
app.command("watch")(watching.watch)
app.command("schema")(watching.schema)
app.command("diff")(comparing.diff)
app.command("push")(release.push)
app.command("list")(release.list_)
app.command("rollback")(release.rollback)
app.command("restore")(restoring.restore)


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
