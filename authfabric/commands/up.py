"""`authfabric up`: a fabric on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.panel import Panel

from authfabric.fabric import Fabric, fabric
from authfabric.settings import DEFAULT_POLICIES, forget_running, note_running, state_folder
from authfabric.terminal import Json, err, out, print_json, run

PORT = 4222


def up(
    replicas: Annotated[int, typer.Option(min=1, max=64, help="How many PDP replicas to run.")] = 3,
    policies: Annotated[Path, typer.Option(help="The folder of policies to decide by.")] = DEFAULT_POLICIES,
    port: Annotated[int, typer.Option(help="The NATS server's port; -1 takes a free one.")] = PORT,
    json: Json = False,
) -> None:
    """Run an embedded NATS server and PDP replicas with example policies, until Ctrl-C."""
    run(_up(replicas, policies, port, json))


async def _up(replicas: int, policies: Path, port: int, json: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with fabric(
        replicas, port=port, policies=policies, jetstream=state_folder() / "jetstream"
    ) as running:
        note_running(running.url)
        try:
            _say_ready(running, policies, json)
            await stop.wait()
            err.print("stopping: replicas answer what they have taken", highlight=False)
        finally:
            forget_running()


def _say_ready(running: Fabric, policies: Path, json: bool) -> None:
    if json:
        names = {name: replica.ready.health for name, replica in running.replicas.items()}
        print_json({"url": running.url, "replicas": names, "policies": str(policies)})
        return
    out.print(
        Panel(
            f"NATS server   [bold]{running.url}[/]\n"
            f"PDP replicas  {', '.join(f'{n} (pid {r.pid})' for n, r in running.replicas.items())}\n"
            f"policies      {policies}\n\n"
            "Ask from another terminal:\n"
            "  [bold]authfabric ask alice /sales/q1 read[/]\n"
            "  [bold]authfabric ask bob /sales/q1 approve -s role=manager -o amount=500 --explain[/]\n\n"
            "Or from a service:\n"
            "  async with Enforcer.connect() as pep:\n"
            '      await pep.require("alice", "/sales/q1", "read")\n\n'
            "Ctrl-C ends it.",
            title="authfabric is up",
            expand=False,
        ),
        highlight=False,
    )
