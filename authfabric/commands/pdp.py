"""`authfabric pdp`: run policy decision points."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Annotated

import typer

from authfabric.settings import DEFAULT_POLICIES, find_url
from authfabric.terminal import Exit, Url, err, fail, print_json, run
from bus.connection import Connection
from bus.errors import InvalidScope
from bus.scopes import DEFAULT_DOMAIN, Scope
from pdp.health_server import serve_health
from pdp.policies import load_engine
from pdp.service import Replica

app = typer.Typer(help="Run policy decision points.", no_args_is_help=True)


@app.callback()
def pdp() -> None:
    """Run policy decision points."""


@app.command()
def serve(
    policies: Annotated[Path, typer.Option(help="The folder of policies to decide by.")] = DEFAULT_POLICIES,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--serve",
            help="What to answer for: broadcast, domain:NAME, prefix:/PATH, object:NAME or"
            " tuple:SUBJECT,OBJECT,ACTION. Repeat it for several. Default: the whole domain.",
        ),
    ] = None,
    domain: Annotated[
        str, typer.Option(help="The domain in which prefixes, objects and tuples lie.")
    ] = DEFAULT_DOMAIN,
    url: Url = None,
    name: Annotated[str, typer.Option(help="How the server's monitoring lists this replica.")] = "pdp",
    health_port: Annotated[
        int, typer.Option(help="Port for /healthz, /readyz and /metrics on this machine; 0 takes a free one.")
    ] = 0,
    max_queue: Annotated[
        int,
        typer.Option(min=1, help="Questions taken and not yet answered; beyond, they are refused as busy."),
    ] = 8192,
    json: Annotated[bool, typer.Option("--json", help="Say in JSON when it is ready.")] = False,
) -> None:
    """Answer questions until SIGTERM or Ctrl-C; then answer what was taken, take no more, and end."""
    try:
        served = [Scope.parse(text, domain) for text in scopes or [f"domain:{domain}"]]
    except InvalidScope as error:
        fail(error, Exit.USAGE)
    run(_serve(policies, served, find_url(url), name, health_port, max_queue, json))


async def _serve(
    policies: Path, scopes: list[Scope], url: str, name: str, health_port: int, max_queue: int, json: bool
) -> None:
    engine = load_engine(policies)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Connection(url, name=name) as bus:
        with contextlib.ExitStack() as stack:
            async with Replica(bus, engine, scopes, max_queue=max_queue) as replica:
                port = stack.enter_context(serve_health(replica, health_port))
                _say_ready(url, replica, port, json)
                await stop.wait()
                err.print(f"draining: {replica.queued} questions left", highlight=False)
            err.print(f"ended: {replica.answered} questions answered", highlight=False)


def _say_ready(url: str, replica: Replica, port: int, json: bool) -> None:
    scopes = [str(scope) for scope in replica.scopes]
    if json:
        print_json({"ready": True, "url": url, "serves": scopes, "health": f"http://127.0.0.1:{port}"})
    else:
        shown = ", ".join(scopes[:5]) + (f" and {len(scopes) - 5} more" if len(scopes) > 5 else "")
        err.print(
            f"[green]ready[/]: serves {shown} on {url}; health on http://127.0.0.1:{port}", highlight=False
        )
