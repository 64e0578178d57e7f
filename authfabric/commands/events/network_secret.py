"""`authfabric keys network`, `relock`: the secret that the brokers of a network share, and another in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from authfabric.files import (
    NetworkKey,
    Step,
    change_network_key,
    find_url,
    make_network_key,
    read_network_key,
)
from authfabric.terminal import Exit, Json, fail, print_json, run, say
from authz import AuthFabricError
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pubsub_core.stores import TableStore, TypeStore
from pubsub_core.types import Catalogue


def network(
    file: Annotated[Path, typer.Argument(help="The file to write, for you alone.")],
    step: Annotated[
        Step | None,
        typer.Option(
            "--step",
            help="Go over to another secret: `add` it, then `use` it, then `drop` the one of before; "
            "copy the file to every broker and restart them, one after the other, after each step.",
        ),
    ] = None,
) -> None:
    """Make the secret under which the brokers of a network keep and send definitions of types."""
    try:
        make_network_key(file) if step is None else change_network_key(file, step)
    except AuthFabricError as error:
        fail(error)
    if step is not None:
        say(
            f"Copy {file} to all brokers and key managers, and restart them one after the other. {_NEXT[step]}"
        )


_NEXT = {
    Step.ADD: "Then: `keys network --step use`.",
    Step.USE: "Then: `keys relock`, and `keys network --step drop`.",
    Step.DROP: "After that the secret of before opens nothing more.",
}
"""What comes after each step."""


def relock(
    network_key: NetworkKey = None,
    domain: Annotated[str, typer.Option(help="Whose context tables.")] = DEFAULT_DOMAIN,
    url: Annotated[str | None, typer.Option("--url", help="Where NATS is.")] = None,
    json: Json = False,
) -> None:
    """Lock the definitions and context tables that you have stored by the first secret of the file.

    Run it after `keys network --step use`, with the credentials of each who has stored any.
    """
    if network_key is None:
        fail("`--network-key` is missing: it says what to lock by", Exit.USAGE)
    try:
        types, tables = run(_relock(find_url(url), domain, read_network_key(network_key)))
    except AuthFabricError as error:
        fail(error)
    left = types[1] + tables[1]
    if json:
        print_json({"types": types[0], "tables": tables[0], "left": left})
    else:
        say(f"[green]locked[/] anew: {types[0]} records of types, {tables[0]} context tables")
    if left:
        fail(f"neither secret of `{network_key}` opens {left} more, which stay as they are", Exit.DENIED)


async def _relock(url: str, domain: str, network: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    async with connect(url, name="keys") as bus:
        types = TypeStore(bus, Catalogue(), network)
        return await types.lock_anew(), await TableStore(bus, domain, (), network).lock_anew()
