"""`authfabric console`: the fabric in a browser."""

from __future__ import annotations

import asyncio
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from authfabric.files import NetworkKey, Trust, find_url, own_identity, read_network_key, trusted_keys
from authfabric.terminal import (
    Exit,
    HealthAddress,
    HealthOptions,
    Json,
    Url,
    address_of,
    err,
    fail,
    passphrase,
    print_json,
    printable,
    run,
    say,
    with_option_types,
)
from authz import AuthFabricError, Identity
from authz.extras import needing
from bus.identity import load_key
from bus.wire import DEFAULT_DOMAIN

if TYPE_CHECKING:
    from authfabric.processes import ConsoleProcess

app = typer.Typer(
    help="The fabric in a browser: members, decisions, policies, releases.", no_args_is_help=True
)


@app.command()
def token(name: Annotated[str, typer.Argument(help="What to call the viewer.")], json: Json = False) -> None:
    """Make a token for a viewer, and the lines for the file that lets it in.

    The token is shown once and kept nowhere: the file has its SHA-256 only. What the viewer may do, policies say:
    `view`, `ask`, `release` and `revoke` on the object `/authfabric/console`.
    """
    from authfabric.console import token_hash

    made = secrets.token_urlsafe(32)
    if json:
        print_json({"name": name, "token": made, "token_sha256": token_hash(made)})
        return
    err.print("for the viewer, to sign in with:", highlight=False)
    say(made)
    err.print("\nfor the file that `console serve --viewers` reads:", highlight=False)
    lines = msgspec.yaml.encode({"viewers": [{"name": name, "token_sha256": token_hash(made)}]}).decode()
    for line in lines.splitlines():
        say(printable(line))


@app.command()
@with_option_types
def serve(
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8182",
    viewers: Annotated[
        Path | None, typer.Option(help="Who else may sign in: names and hashes of tokens, in YAML.")
    ] = None,
    host_names: Annotated[
        list[str] | None,
        typer.Option("--name", help="A name under which browsers reach it. Repeat it for several."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="The server's certificate, for https.")] = None,
    certificate_key: Annotated[Path | None, typer.Option(help="The key of that certificate.")] = None,
    oidc: Annotated[
        Path | None,
        typer.Option(help="Who else may sign in: an OpenID Connect provider and its client, in YAML."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="The domain's folder: shows who holds which capability, and revokes members."),
    ] = None,
    capabilities: Annotated[
        Path | None, typer.Option(help="A folder with further chains of capabilities (`*.cap`) to show.")
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(help="The test cases of the policies: a file, or the folder of policies."),
    ] = None,
    managers: Annotated[
        list[Path] | None,
        typer.Option(
            "--manager", metavar="KEY", help="The key of a manager of key groups, to show who holds keys."
        ),
    ] = None,
    network_key: NetworkKey = None,
    key: Annotated[
        Path | None, typer.Option(help="The private key to sign releases with. Default: your own.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing, whoever asks.")] = False,
    domain: Annotated[str, typer.Option(help="The domain to show.")] = DEFAULT_DOMAIN,
    trust: Trust = None,
    health: HealthOptions,
    url: Url = None,
    json: Json = False,
) -> None:
    """Serve the console until SIGTERM or Ctrl-C; the address that is printed signs you in."""
    if (certificate is None) != (certificate_key is None):
        fail("https needs `--certificate` and `--certificate-key` together", Exit.USAGE)
    host, port = address_of("--listen", listen)
    where = find_url(url)
    identity: Identity | None = None
    try:
        with needing("console"):
            from authfabric.console import read_provider, read_viewers
            from authfabric.processes import ConsoleProcess as Given
            from pdp.access import DomainFolder
            from pep.gateway import Tls
        trusted = trusted_keys(trust, where)
        named = read_viewers(viewers) if viewers is not None else {}
        identity = None if read_only else own_identity(key)
        provider = read_provider(oidc) if oidc is not None else None
        opened = DomainFolder.open(folder) if folder is not None else None
        issuer = None if opened is None or read_only else opened.issuer(passphrase.known)
        holding = tuple(load_key(each, passphrase.known) for each in managers or ())
        network = read_network_key(network_key)
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    tls = Tls(certificate, certificate_key) if certificate and certificate_key else None
    names = tuple(host_names or ())
    given = Given(
        where,
        trusted,
        identity,
        named,
        host,
        port,
        names,
        tls,
        domain,
        cases,
        opened,
        issuer,
        capabilities,
        lambda: holding,
        network,
        provider,
    )
    run(_serve(given, health.address(), json))


async def _serve(given: ConsoleProcess, health: HealthAddress, json: bool) -> None:
    from authfabric.processes import process_vitals, serve_console
    from pep.metrics import EnforcerMetrics

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with process_vitals(health) as vitals, serve_console(given) as served:
        if served.pep is not None:
            vitals.begin([served.pep.asker.connection], EnforcerMetrics(served.pep))
        if json:
            ready = {"ready": True, "address": served.address, "sign_in": served.link}
            print_json({**ready, "health": vitals.address})
        else:
            err.print("[green]ready[/]: the console signs you in at", highlight=False)
            say(printable(served.link))
        await stop.wait()
