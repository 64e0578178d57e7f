"""`authfabric pdp`: run policy decision points."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from authfabric.files import Chain, Key, Trust, cache_folder, find_authority, find_url, followed_keys
from authfabric.processes import PdpProcess, serve_pdp
from authfabric.terminal import (
    Exit,
    ListenOptions,
    Url,
    fail,
    run,
    with_option_types,
)
from authz import AuthFabricError
from bus.feeds import DEFAULT_LEASE
from bus.runtime import TRACES
from bus.wire import DEFAULT_DOMAIN, Scope, subjects
from pdp.attributes import read_provider_file
from pdp.bundle import BundleCache, read_entities
from pdp.replica import Following

app = typer.Typer(help="Run policy decision points.", no_args_is_help=True)


@app.callback()
def pdp() -> None:
    """Run policy decision points."""


@app.command()
@with_option_types
def serve(
    *,
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Decide by this folder of policies, always; errors and failing cases are refused as by `policy push`."
            " Default: follow the domain's releases.",
        ),
    ] = None,
    trust: Trust = None,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--serve",
            help="What to answer for: broadcast, domain:NAME, prefix:/PATH, object:NAME or"
            " tuple:SUBJECT,OBJECT,ACTION. Repeat it for several. Default: the whole domain.",
        ),
    ] = None,
    domain: Annotated[
        str, typer.Option(help="Whose releases to follow; and where prefixes, objects and tuples lie.")
    ] = DEFAULT_DOMAIN,
    lease: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="Seconds to answer for after the policy store last confirmed that the policies are the newest;"
            " 0: without limit, so that a revocation may never reach this replica.",
        ),
    ] = DEFAULT_LEASE,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where to keep the last verified policies. Default: in the user's cache folder.",
        ),
    ] = None,
    entities: Annotated[
        list[Path] | None,
        typer.Option(
            help="A file or folder of subjects, objects and actions that can be searched, besides those of the"
            " policies. Repeat it for several."
        ),
    ] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(help="A file that says where attributes are looked up, such as a subject's department."),
    ] = None,
    shadow: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The share of requests to decide a second time, by the reference and py-abac; differences raise"
            " an alarm.",
        ),
    ] = 0.0,
    key: Key = None,
    chain: Chain = None,
    audit: Annotated[
        bool | None,
        typer.Option(
            help="Sign every decision and say so in the audit stream. Default: if there is such a stream."
            " Needs --key."
        ),
    ] = None,
    url: Url = None,
    name: Annotated[
        str, typer.Option(help="A name for this replica that no other has. Default: from host and process.")
    ] = "",
    health: ListenOptions,
    max_queue: Annotated[
        int,
        typer.Option(min=1, help="Questions taken and not yet answered; beyond, they are refused as busy."),
    ] = 8192,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Answer questions until SIGTERM or Ctrl-C; then answer what was taken, take no more, and end.

    The policies are those that were last released in the domain with `authfabric policy push`, and change when others
    are; or those in a folder. PEPs that trust somebody refuse the answers of keys that nobody they trust empowered.
    """
    where = find_url(url)
    member = name or f"pdp-{socket.gethostname()}-{os.getpid()}"
    try:
        served = [Scope.parse(text, domain) for text in scopes or [f"domain:{domain}"]]
        followed = policies or Following(
            domain,
            followed_keys(trust),
            member,
            BundleCache(cache or cache_file(where, domain)),
            lease or None,
        )
        known = read_entities(entities or [])
        providers = read_provider_file(attributes) if attributes else ()
        held = find_authority(key, chain)
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    serving = PdpProcess(
        where,
        member,
        followed,
        served,
        entities=known,
        providers=providers,
        shadow=shadow,
        domain=domain,
        held=held,
        audit=audit,
        health=health.address(),
        max_queue=max_queue,
        json=json,
    )
    TRACES.start("authfabric-pdp")
    run(serve_pdp(serving))


def cache_file(url: str, domain: str) -> Path:
    """One file for each domain of each fabric that this user's replicas serve."""
    fabric = hashlib.sha256(url.encode()).hexdigest()[:12]
    return cache_folder() / "releases" / f"{subjects.token(domain)}-{fabric}"
