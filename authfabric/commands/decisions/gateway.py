"""`authfabric gateway`: answer AuthZEN requests over HTTP, for services in any language."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from authfabric.files import find_trust, find_url
from authfabric.processes import ConnectionMetrics, process_vitals
from authfabric.terminal import (
    Exit,
    HealthAddress,
    HealthOptions,
    Json,
    Url,
    address_of,
    err,
    fail,
    print_json,
    printable,
    run,
    say,
    with_option_types,
)
from authz import AuthFabricError
from authz.errors import InvalidSyntax
from bus.runtime import TRACES
from bus.wire import DEFAULT_DOMAIN
from pdp.documents import Document
from pep import UNVERIFIED, AuditRules, Enforcer, LeaseRules
from pep.metrics import EnforcerMetrics
from pep.trust import Trust

if TYPE_CHECKING:
    from pep.gateway import GatewaySettings, Tls

app = typer.Typer(
    help="Answer AuthZEN requests over HTTP, for services in any language.", no_args_is_help=True
)

_HINT = "the gateway needs more packages: pip install 'authfabric[gateway]'"


@app.command()
def token(name: Annotated[str, typer.Argument(help="What to call the caller.")], json: Json = False) -> None:
    """Make a bearer token for a caller, and the lines for the settings that accept it.

    The token is shown once and kept nowhere: the settings have its SHA-256 only.
    """
    made = secrets.token_urlsafe(32)
    digest = hashlib.sha256(made.encode()).hexdigest()
    if json:
        print_json({"name": name, "token": made, "token_sha256": digest})
        return
    err.print("for the caller, to be sent as `Authorization: Bearer …`:", highlight=False)
    say(made)
    err.print("\nfor the gateway's settings:", highlight=False)
    for line in (
        msgspec.yaml.encode({"callers": [{"name": name, "token_sha256": digest}]}).decode().splitlines()
    ):
        say(printable(line))


@app.command()
@with_option_types
def serve(
    *,
    config: Annotated[
        Path | None, typer.Option(help="The settings: entity types and callers, in YAML.")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8181",
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Where clients reach it, for discovery. Default: as in the settings, or as --listen says."
        ),
    ] = None,
    anonymous: Annotated[
        bool,
        typer.Option("--anonymous", help="Answer whoever reaches the address, whatever the settings say."),
    ] = False,
    certificate: Annotated[Path | None, typer.Option(help="The server's certificate, for https.")] = None,
    key: Annotated[Path | None, typer.Option(help="The key of that certificate.")] = None,
    clients: Annotated[
        Path | None, typer.Option(help="The authority whose client certificates are accepted.")
    ] = None,
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Decide by this folder in this very process, without a fabric. Default: ask the fabric's PDPs.",
        ),
    ] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(
            help="With --policies, a file that says where attributes are looked up, as for `pdp serve`."
        ),
    ] = None,
    domain: Annotated[str, typer.Option(help="The domain for which it answers.")] = DEFAULT_DOMAIN,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY|FILE",
            help="A public key whose PDPs are believed, or a file with one on each line. Repeat it for several."
            " Default: $AUTHFABRIC_TRUST, the running `up`'s, or the credentials'.",
        ),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Believe whoever answers.")] = False,
    lease: Annotated[
        float, typer.Option(min=0.1, help="Seconds without the policy feed after which all is asked.")
    ] = 10.0,
    deadline: Annotated[float, typer.Option(help="Seconds within which a PDP must answer.")] = 1.0,
    audit_wait: Annotated[
        bool,
        typer.Option(
            "--audit-wait",
            help="Answer only when the audit stream has the decision; deny what it does not take by the deadline.",
        ),
    ] = False,
    audit_mask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Attributes that are in no audit record: `subject.salary`, `context.*`. Repeat it for several.",
        ),
    ] = None,
    url: Url = None,
    health: HealthOptions,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Answer AuthZEN requests, from caches where they can, until SIGTERM or Ctrl-C."""
    try:
        from pep.gateway import GatewaySettings, Tls
    except ImportError as error:
        fail(f"{_HINT} ({error.name} is missing)", Exit.USAGE)
    host, port = address_of("--listen", listen)
    if (certificate is None) != (key is None) or (clients is not None and certificate is None):
        fail("https needs `--certificate` and `--key` together; `--clients` needs both", Exit.USAGE)
    if attributes is not None and policies is None:
        fail(
            "`--attributes` needs `--policies`: a fabric's PDPs look attributes up for themselves", Exit.USAGE
        )
    if (audit_wait or audit_mask) and policies is not None:
        fail(
            "`--audit-wait` and `--audit-mask` need a fabric: with `--policies` nothing is audited",
            Exit.USAGE,
        )
    tls = Tls(certificate, key, clients) if certificate and key else None
    try:
        settings = _read(config) if config else GatewaySettings()
        if anonymous:
            settings = msgspec.structs.replace(settings, anonymous=True)
        if (found := base_url or settings.base_url or _base(host, port, tls)) is not None:
            settings = msgspec.structs.replace(settings, base_url=found)
        settings.validate(str(config or "the options"))
        if policies is not None:
            asking = Enforcer.local(policies, attributes=attributes, name="gateway")
        else:
            where = find_url(url)
            trusted: Trust = UNVERIFIED if insecure else find_trust(trust, where)
            asking = Enforcer.connect(
                where,
                domain=domain,
                deadline=deadline,
                trust=trusted,
                lease=LeaseRules(lease),
                name="gateway",
                audit=AuditRules(wait=audit_wait, mask=audit_mask or ()),
            )
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    TRACES.start("authfabric-gateway")
    run(_serve(asking, settings, host, port, tls, health.address(), json))


def _base(host: str, port: int, tls: Tls | None) -> str | None:
    """Where it is reached if nothing else is said; None where that cannot be told beforehand."""
    anywhere = host in ("0.0.0.0", "::")  # noqa: S104 - only compared
    return None if port == 0 or anywhere else _address(host, port, tls)


def _address(host: str, port: int, tls: Tls | None) -> str:
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


async def _serve(
    asking: contextlib.AbstractAsyncContextManager[Enforcer],
    settings: GatewaySettings,
    host: str,
    port: int,
    tls: Tls | None,
    health: HealthAddress,
    json: bool,
) -> None:
    from pep.gateway import gateway, serving

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        process_vitals(health) as vitals,
        asking as pep,
        serving(gateway(pep, settings), host, port, tls) as chosen,
    ):
        if pep.on_bus:  # it lives while its process does: what it has cached outlasts the bus
            connection = pep.asker.connection
            more = ConnectionMetrics([connection])
            vitals.begin([], EnforcerMetrics(pep), more, able=lambda: connection.ready)
        else:
            vitals.begin([], EnforcerMetrics(pep))
        _say_ready(_address(host, chosen, tls), vitals.address, json)
        await stop.wait()
    err.print("ended", highlight=False)


def _say_ready(address: str, health: str, json: bool) -> None:
    if json:
        print_json({"ready": True, "address": address, "health": health})
        return
    err.print(
        f"[green]ready[/]: AuthZEN on {address}/access/v1/evaluation; health on {health}",
        highlight=False,
        soft_wrap=True,
    )


def _read(file: Path) -> GatewaySettings:
    """The settings in a file. Ends the command with everything that is wrong with their form."""
    from pep.gateway import GatewaySettings

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"`{file}` cannot be read: {getattr(error, 'strerror', None) or error}", Exit.USAGE)
    try:
        return Document.parse(text, str(file)).read(GatewaySettings)
    except InvalidSyntax as error:
        fail("\n".join(map(str, (error, *error.others))), Exit.USAGE)
