"""`authfabric domain init`, `certify`, `nodes`: make a domain, and all that its NATS servers and nodes are given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.deployment import (
    OPERATOR_FILE,
    SETTINGS,
    Layout,
    NodeFolders,
    parse_nodes,
    read_layout,
    write_layout,
)
from authfabric.terminal import Exit, Json, fail, passphrase, print_json, say
from authz import AuthFabricError
from authz.errors import InvalidKey, InvalidSyntax
from authz.spki import InvalidCapability
from pdp.access import LOCALHOST, DomainFolder
from pdp.access import replace_links as renew_links
from pep.trust import read_keys

Folder = Annotated[Path, typer.Argument(help="The domain's folder.")]


def init(
    folder: Folder,
    name: Annotated[str, typer.Option(help="The domain's name.")],
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="HOST,HOST,...",
            help="Its machines: a folder with all that it needs is written for each. NAME=HOST:PORT says more.",
        ),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help=f"Its machines and their folders, in YAML, as `{SETTINGS}` in the folder has it."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", help="A name or address of its NATS servers. Repeat it for several."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Where members reach its servers. Default: port 4222 of the hosts, or of this machine."
        ),
    ] = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY|FILE", help="A key that signs its policies, or lets PDPs decide. Repeatable."
        ),
    ] = None,
    unencrypted: Annotated[
        bool, typer.Option("--unencrypted", help="Leave the keys without a passphrase.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a domain: its keys, its certificates, and the configuration of its NATS servers.

    The passphrase of the keys is read from $AUTHFABRIC_PASSPHRASE, from the file $AUTHFABRIC_PASSPHRASE_FILE, or typed.
    """
    with errors():
        layout = _layout(nodes, settings)
        if layout is not None and hosts:
            fail("say `--nodes` or `--host`: a node's host is what others reach it by", Exit.USAGE)
        keys = read_keys(trust or [])
        secret = None if unencrypted else passphrase.chosen()
        named = hosts or (layout.hosts if layout is not None else [])
        where = url or (layout.url if layout is not None else _servers(hosts))
        made = DomainFolder.create(folder, name, time(), secret, named, where).trusting(keys)
        if layout is not None:
            write_layout(folder / SETTINGS, layout)
            NodeFolders(made, layout).write(made.domain(lambda: secret or ""))
    if json:
        print_json({"name": name, "owner": made.file.owner, "service": made.file.service})
        return
    say(f"[green]made[/] the domain [bold]{name}[/], owned by {made.file.owner}")
    if layout is not None:
        _say_nodes(NodeFolders(made, layout))
        return
    say(f"start its server:   nats-server -c {folder / 'nats.conf'}")
    say(f"then its service:   authfabric domain serve {folder}")
    say(f"let somebody in:    authfabric domain grant {folder} NAME --as pep --out FILE")


def certify(
    folder: Folder,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host", help="A name or address of its NATS servers, all of them anew. Default: as before."
        ),
    ] = None,
    replace_links: Annotated[
        bool,
        typer.Option(
            "--replace-links", help="Let no server of before join any more: after one was taken over."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Give the domain's NATS servers new keys and certificates, for a year. Restart the servers, or reload them.

    Nodes are given new credentials for their replicas, too. This needs the domain's own key.
    """
    with errors():
        opened = DomainFolder.open(folder)
        outdated, domain = opened.servers.outdated, opened.domain(passphrase.known)
        domain = renew_links(opened, domain) if replace_links else domain
        named = opened.servers.certify(domain, time(), [*LOCALHOST, *hosts] if hosts else ())
        folders = NodeFolders.of(opened)
        if folders is not None:
            folders.write(domain, anew=True)
    if json:
        print_json({"name": opened.file.name, "hosts": named, "replaced": outdated})
        return
    say(f"[green]certified[/] the servers of [bold]{opened.file.name}[/] as {', '.join(named)}")
    if folders is not None:
        _say_nodes(folders)
    if outdated:
        say(
            f"{folder / 'nats.conf'} is new, and what was there is now nats.conf.old: carry your changes over"
        )
        say("members refuse the new servers until they have new credentials: grant them anew")


def nodes(folder: Folder, json: Json = False) -> None:
    """Write the folders of a domain's nodes as its settings file says now: after a node was added, or others changed.

    Nodes keep the certificates and credentials that they have. This needs the domain's own key.
    """
    with errors():
        opened = DomainFolder.open(folder)
        layout = read_layout(folder / SETTINGS)
        opened = opened.at_url(layout.url)
        folders = NodeFolders(opened, layout)
        folders.write(opened.domain(passphrase.known))
    if json:
        print_json({"name": opened.file.name, "nodes": [node.name for node in layout.nodes]})
    else:
        _say_nodes(folders)


def refresh_nodes(opened: DomainFolder, json: bool) -> None:
    """Let the folders of nodes have what was issued since, if the domain has nodes. Raises InvalidLayout."""
    folders = NodeFolders.of(opened)
    if folders is None:
        return
    folders.refresh()
    if not json:
        say(f"the folders below {opened.path / 'nodes'} have it: copy `config/domain` of each to its node")


def _layout(nodes: str | None, settings: Path | None) -> Layout | None:
    if nodes is not None and settings is not None:
        fail("say `--nodes` or `--settings`: either names all machines", Exit.USAGE)
    if settings is not None:
        return read_layout(settings)
    return parse_nodes(nodes) if nodes is not None else None


def _say_nodes(folders: NodeFolders) -> None:
    """What goes where, in the order in which it is done."""
    path, layout = folders.folder.path, folders.layout
    say(f"{path / SETTINGS} names its nodes; what each needs is in a folder of its own:")
    for node in layout.nodes:
        say(
            f"  {node.name}: copy {folders.path(node)} to {node.host}, and run `sudo sh install.sh` in it there"
        )
    if folders.locked:
        say(f"each node needs the passphrase of the keys in {layout.config}/passphrase, for its user alone")
    say(f"keep the rest of {path} away from the network: it holds the domain's own key")
    say(f"then:   AUTHFABRIC_CREDENTIALS={path / OPERATOR_FILE} authfabric status")


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Errors of a domain's commands become one line and an exit code."""
    try:
        yield
    except (InvalidSyntax, InvalidCapability, InvalidKey) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)


def _servers(hosts: list[str] | None) -> str:
    """Where servers are that listen on the usual port of these hosts; an IPv6 address stands in brackets."""
    named = [f"[{each}]" if ":" in each else each for each in hosts or ["127.0.0.1"]]
    return ",".join(f"tls://{each}:4222" for each in named)
