"""`authfabric pdp`: run policy decision points."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer

from authfabric.keys import Trust, trusted_keys
from authfabric.settings import cache_folder, find_url
from authfabric.terminal import Exit, Url, err, fail, print_json, run
from authz import Identity
from authz.errors import InvalidKey
from bus.connection import Connection
from bus.errors import InvalidScope
from bus.scopes import DEFAULT_DOMAIN, Scope
from bus.subjects import token
from pdp.bundle_store import BundleCache, read_folder
from pdp.explain_service import serve_explanations
from pdp.follower_service import Explainer, Follower, Following
from pdp.health_server import serve_health
from pdp.policy_set import PolicySet
from pdp.service import Replica

app = typer.Typer(help="Run policy decision points.", no_args_is_help=True)


@app.callback()
def pdp() -> None:
    """Run policy decision points."""


@app.command()
def serve(
    policies: Annotated[
        Path | None,
        typer.Option(
            help="Decide by this folder of policies, always. Default: follow the domain's releases."
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
    max_age: Annotated[
        float | None,
        typer.Option(
            help="Stop answering when the policy store was not heard for so many seconds. Default: never."
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Where to keep the last verified policies. Default: in the user's cache folder."),
    ] = None,
    url: Url = None,
    name: Annotated[
        str, typer.Option(help="A name for this replica that no other has. Default: from host and process.")
    ] = "",
    health_port: Annotated[
        int, typer.Option(help="Port for /healthz, /readyz and /metrics on this machine; 0 takes a free one.")
    ] = 0,
    max_queue: Annotated[
        int,
        typer.Option(min=1, help="Questions taken and not yet answered; beyond, they are refused as busy."),
    ] = 8192,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Answer questions until SIGTERM or Ctrl-C; then answer what was taken, take no more, and end.

    The policies are those that were last released in the domain with `authfabric policy push`, and change when others
    are; or those in a folder.
    """
    where = find_url(url)
    member = name or f"pdp-{socket.gethostname()}-{os.getpid()}"
    try:
        served = [Scope.parse(text, domain) for text in scopes or [f"domain:{domain}"]]
        following = policies or Following(
            domain,
            trusted_keys(trust),
            member,
            Identity.generate(),
            BundleCache(cache or _cache_file(where, domain)),
            max_age,
        )
    except (InvalidScope, InvalidKey) as error:
        fail(error, Exit.USAGE)
    run(_serve(following, served, where, member, health_port, max_queue, json))


def _cache_file(url: str, domain: str) -> Path:
    """One file for each domain of each fabric that this user's replicas serve."""
    fabric = hashlib.sha256(url.encode()).hexdigest()[:12]
    return cache_folder() / "releases" / f"{token(domain)}-{fabric}"


async def _serve(
    policies: Path | Following,
    scopes: list[Scope],
    url: str,
    name: str,
    health_port: int,
    max_queue: int,
    json: bool,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(Connection(url, name=name))
        decider = await _decider(bus, policies, stop, stack)
        if stop.is_set():
            return
        await stack.enter_async_context(serve_explanations(bus, decider.explain, scopes))
        async with Replica(bus, decider, scopes, max_queue=max_queue) as replica:
            port = stack.enter_context(serve_health(replica, health_port))
            _say_ready(url, replica, port, json)
            await stop.wait()
            err.print(f"draining: {replica.queued} questions left", highlight=False)
        err.print(f"ended: {replica.answered} questions answered", highlight=False)


async def _decider(
    bus: Connection, policies: Path | Following, stop: asyncio.Event, stack: contextlib.AsyncExitStack
) -> Explainer:
    """What decides, once there is something to decide by."""
    if isinstance(policies, Path):
        return _build(PolicySet.read(read_folder(policies)), 0)
    follower = await stack.enter_async_context(Follower(bus, policies, _build))
    if not follower.ready.is_set():
        err.print(f"waiting for policies: {follower.problem}", highlight=False)
        waits = [asyncio.create_task(each.wait()) for each in (follower.ready, stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
    return follower


def _build(policies: PolicySet, epoch: int) -> Explainer:
    return policies.engine(epoch, certify=True)


def _say_ready(url: str, replica: Replica, port: int, json: bool) -> None:
    scopes = [str(scope) for scope in replica.scopes]
    if json:
        print_json({"ready": True, "url": url, "serves": scopes, "health": f"http://127.0.0.1:{port}"})
    else:
        shown = ", ".join(scopes[:5]) + (f" and {len(scopes) - 5} more" if len(scopes) > 5 else "")
        err.print(
            f"[green]ready[/]: serves {shown} on {url}; health on http://127.0.0.1:{port}", highlight=False
        )
