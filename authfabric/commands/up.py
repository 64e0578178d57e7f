"""`authfabric up`: a fabric on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from functools import partial
from pathlib import Path
from time import time
from typing import Annotated

import typer
from rich.panel import Panel

from authfabric.commands.release import Force, reason_of
from authfabric.fabric import Fabric, fabric
from authfabric.keys import own_identity
from authfabric.local_domain import OPERATOR
from authfabric.policies import read_tested
from authfabric.settings import DEFAULT_POLICIES, forget_running, note_running, state_folder
from authfabric.terminal import Json, err, out, print_json, program, run, waiting
from authz import Identity
from authz.release import Released
from bus.audit import AuditStore
from bus.credentials_store import default_file
from bus.link import connect
from bus.scopes import DEFAULT_DOMAIN
from bus.tasks import in_background
from pdp.bundle_store import read_folder
from pdp.publisher_service import Publisher

PORT = 4222


def up(
    replicas: Annotated[int, typer.Option(min=1, max=64, help="How many PDP replicas to run.")] = 3,
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder of policies to release. Default: what was released last, or at first examples.",
        ),
    ] = None,
    attributes: Annotated[
        Path | None,
        typer.Option(help="A file that says where attributes are looked up, as for `pdp serve`."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=-1, max=65535, help="The NATS server's port; -1 takes a free one.")
    ] = PORT,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let anybody on this machine connect, and encrypt nothing.")
    ] = False,
    force: Force = None,
    json: Json = False,
) -> None:
    """Run an embedded NATS server and PDP replicas, until Ctrl-C; `authfabric policy push` changes their policies.

    Whichever of them ends by itself is started anew.

    Nobody connects without credentials, and links are encrypted. Yours are left where every other command, and every
    service that you run, finds them by itself.
    """
    extra = ["--attributes", str(attributes)] if attributes is not None else []
    run(_up(replicas, policies, port, extra, insecure, reason_of(force), json))


async def _up(
    replicas: int,
    policies: Path | None,
    port: int,
    extra: list[str],
    insecure: bool,
    reason: str,
    json: bool,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    root, state = own_identity(), state_folder()
    async with contextlib.AsyncExitStack() as stack:
        with waiting("starting a NATS server and PDP replicas", quiet=json):
            running = await stack.enter_async_context(
                fabric(
                    0,
                    port=port,
                    policies=None,
                    jetstream=state / "jetstream",
                    root=root,
                    keys=state / "replicas",
                    secure=not insecure,
                )
            )
            _leave_credentials(running)
            released = await _release(running.url, policies, root, reason)
            if released is None:  # an external server may be without a store
                running.policies = policies or DEFAULT_POLICIES
            else:
                extra = [*extra, "--cache", str(state / "releases" / DEFAULT_DOMAIN)]
            await asyncio.gather(*(running.add(f"pdp-{n}", extra=extra) for n in range(1, replicas + 1)))
            note_running(running.url, root.public)
        in_background(stack, partial(running.keep_running, extra, partial(err.print, highlight=False)))
        try:
            _say_ready(running, released, json)
            await stop.wait()
            err.print("stopping: replicas answer what they have taken", highlight=False)
        finally:
            forget_running()
            default_file().unlink(missing_ok=True)


def _leave_credentials(running: Fabric) -> None:
    """Put the credentials of whoever started this where other commands look for them; or none, if none are needed."""
    default_file().unlink(missing_ok=True)
    if running.local is not None:
        running.local.hand_out(default_file(), "operator", OPERATOR)


async def _release(url: str, policies: Path | None, identity: Identity, reason: str) -> Released | None:
    """Release the policies given, or the examples if there were never any; None if there is no policy store."""
    async with connect(url, name="up") as bus:
        if not await bus.has_jetstream():
            return None
        await AuditStore(bus, DEFAULT_DOMAIN).create()
        publisher = Publisher(bus, DEFAULT_DOMAIN, identity, (), time)
        history = await publisher.history()
        if policies is None and history and history[-1].released is not None:
            return history[-1].released
        bundle = read_tested(policies or DEFAULT_POLICIES, ())
        return (await publisher.push(bundle, "by `authfabric up`", force=reason)).released


def _security(running: Fabric) -> str:
    return "" if running.local is None else ", for those with credentials only"


def _environment(running: Fabric) -> str:
    """What a service needs besides what it finds by itself: credentials name the key that is trusted."""
    needed = f", with this in its environment:\n  [bold]AUTHFABRIC_TRUST={running.root.public}[/]\nthen"
    return needed if running.local is None else ""


def questions(released: Released | None) -> list[str]:
    """What could be asked: about what the examples are about, where they are in force."""
    if released is not None and released.release.bundle != read_folder(DEFAULT_POLICIES).hash:
        return ["ask SUBJECT OBJECT ACTION --explain", "policy list"]
    return ["ask alice /sales/q1 read", "ask bob /sales/q1 approve -s role=clerk --explain"]


def _say_ready(running: Fabric, released: Released | None, json: bool) -> None:
    decided_by = f"release {released.epoch}" if released else str(running.policies)
    if json:
        names = {name: replica.ready.health for name, replica in running.replicas.items()}
        trust = str(running.root.public)
        print_json({"url": running.url, "replicas": names, "policies": decided_by, "trust": trust})
        return
    asking = "".join(f"  [bold]{program()} {each}[/]\n" for each in questions(released))
    out.print(
        Panel(
            f"NATS server   [bold]{running.url}[/]{_security(running)}\n"
            f"PDP replicas  {', '.join(f'{n} (pid {r.pid})' for n, r in sorted(running.replicas.items()))}\n"
            f"policies      {decided_by}\n\n"
            "Ask from another terminal:\n"
            f"{asking}\n"
            "Change the policies:\n"
            f"  [bold]{program()} policy push DIR --wait[/]\n\n"
            f"Or ask from a service{_environment(running)}:\n"
            "  async with Enforcer.connect() as pep:\n"
            '      await pep.require("alice", "/sales/q1", "read")\n\n'
            "Ctrl-C ends it.",
            title="authfabric is up",
            expand=False,
        ),
        highlight=False,
    )
