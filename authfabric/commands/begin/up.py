"""`authfabric up`: a fabric on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from time import time
from typing import Annotated

import typer
from rich.panel import Panel

from authfabric.commands.policies.push import Force, reason_of
from authfabric.files import DEFAULT_POLICIES, fabric_folder, forget_running, note_running, own_identity
from authfabric.processes import (
    OPERATOR,
    EventProcesses,
    Fabric,
    all_hosted,
    fabric,
    forget_hosted,
    hosted_logs,
    hosted_managers,
)
from authfabric.releases import deciding
from authfabric.terminal import Json, err, escape, out, print_json, program, run, waiting
from authz import Identity
from authz.extras import ExtraMissing, needing
from authz.release import Released
from bus.audit import AuditStore
from bus.identity import default_file, find_running
from bus.nats import connect
from bus.runtime import end_task, in_background
from bus.wire import DEFAULT_DOMAIN, URL_VARIABLE, configured_url
from pdp.bundle import read_folder
from pdp.lint import read_tested
from pdp.releases import Publisher
from pep.trust import TRUST_VARIABLE

PORT = 4222
CONSOLE_PORT = 8182
"""Where the console is looked for first."""


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
    events: Annotated[
        bool,
        typer.Option(
            "--events",
            help="Run the brokers and key managers of event applications too (`authfabric event apply`).",
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Delete what earlier ones kept, releases and audit included, and begin anew."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before --fresh deletes.")] = False,
    force: Force = None,
    console: Annotated[
        bool, typer.Option(help="Serve the console too; it needs the extra of that name.")
    ] = True,
    json: Json = False,
) -> None:
    """Run a NATS server, PDP replicas and the console until Ctrl-C; `authfabric policy push` changes policies.

    Whichever of them ends by itself is started anew.

    Nobody connects without credentials, and links are encrypted. Yours are left where every other command, and every
    service that you run, finds them by itself.
    """
    if fresh:
        _start_over(insecure, yes)
    extra = ["--attributes", str(attributes)] if attributes is not None else []
    run(_up(replicas, policies, port, extra, insecure, events, reason_of(force), console, json))


def _start_over(insecure: bool, yes: bool) -> None:
    """Delete what is kept of a fabric that does not run."""
    if configured_url() is not None:
        raise typer.BadParameter(
            f"what is kept is on the server that {URL_VARIABLE} names", param_hint="--fresh"
        )
    if (running := find_running()) is not None:
        raise typer.BadParameter(
            f"`authfabric up` runs: end process {running.pid} first", param_hint="--fresh"
        )
    folder = fabric_folder(insecure)
    if folder.exists():
        if not yes:
            typer.confirm(f"Delete `{folder}`, with every release and the audit?", abort=True, err=True)
        shutil.rmtree(folder)
    forget_hosted()


async def _up(
    replicas: int,
    policies: Path | None,
    port: int,
    extra: list[str],
    insecure: bool,
    events: bool,
    reason: str,
    console: bool,
    json: bool,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    root, state = own_identity(), fabric_folder(insecure)
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
            in_force = await _release(running.url, policies, root, reason)
            if in_force is None:  # an external server may be without a store
                running.policies = policies or DEFAULT_POLICIES
            else:
                extra = [*extra, "--cache", str(state / "releases" / DEFAULT_DOMAIN)]
            names = [f"pdp-{n}" for n in range(1, replicas + 1)]
            released = None if in_force is None else in_force.released
            async with deciding(running.url, names, released, root.public):
                await asyncio.gather(*(running.add(name, extra=extra) for name in names))
            note_running(running.url, root.public, events)
            shown = ""
            if console and in_force is not None:
                shown = await _console(stack, running, root, port, policies)
        in_background(stack, partial(running.keep_running, extra, _say))
        try:
            _say_ready(running, in_force, shown, json, events)
            if events:
                hosting = asyncio.create_task(EventProcesses(running, _say).keep())
                stack.push_async_callback(end_task, hosting)
            await stop.wait()
            err.print("stopping: replicas answer what they have taken", highlight=False)
        finally:
            forget_running()
            default_file().unlink(missing_ok=True)


def _say(text: str) -> None:
    """Tell what has become of a process, and when."""
    err.print(f"{datetime.now():%H:%M:%S} {escape(text)}", highlight=False, soft_wrap=True)


async def _console(
    stack: contextlib.AsyncExitStack, running: Fabric, root: Identity, port: int, policies: Path | None
) -> str:
    """Serve the console at its usual port, or another if that is taken; the address that signs its owner in."""
    try:
        with needing("console"):
            from authfabric.processes import ConsoleProcess, serve_console
            from pep.gateway import CannotListen
    except ExtraMissing:
        return ""
    local = running.local
    given = ConsoleProcess(
        running.url,
        [root.public],
        root,
        port=CONSOLE_PORT if port == PORT else 0,
        cases=policies,
        folder=None if local is None else local.folder,
        issuer=None if local is None else local.issuer,
        managers=hosted_managers,
    )
    try:
        return (await stack.enter_async_context(serve_console(given))).link
    except CannotListen:
        return (await stack.enter_async_context(serve_console(replace(given, port=0)))).link


def _leave_credentials(running: Fabric) -> None:
    """Put the credentials of whoever started this where other commands look for them; or none, if none are needed."""
    default_file().unlink(missing_ok=True)
    if running.local is not None:
        running.local.hand_out(default_file(), "operator", OPERATOR)


async def _release(url: str, policies: Path | None, identity: Identity, reason: str) -> InForce | None:
    """Release the policies given, or the examples if there were never any; None if there is no policy store."""
    async with connect(url, name="up") as bus:
        if not await bus.has_jetstream():
            return None
        await AuditStore(bus, DEFAULT_DOMAIN).create()
        publisher = Publisher(bus, DEFAULT_DOMAIN, identity, (), time)
        history = await publisher.history()
        last = history[-1].released if history else None
        if policies is not None or last is None:
            bundle = read_tested(policies or DEFAULT_POLICIES, ())
            last = (await publisher.push(bundle, "by `authfabric up`", force=reason)).released
        return InForce(last)


def _security(running: Fabric) -> str:
    return "" if running.local is None else ", for those with credentials only"


def _environment(running: Fabric) -> str:
    """What services of others need; those of whoever started this find the fabric, and whom to trust, by themselves."""
    if running.local is not None:
        return ""
    return (
        "; if another user runs it, with this in its environment:\n"
        f"  [bold]{URL_VARIABLE}={running.url}[/]\n  [bold]{TRUST_VARIABLE}={running.root.public}[/]\nthen"
    )


@dataclass(frozen=True, slots=True)
class InForce:
    """The release that is in force."""

    released: Released

    @property
    def examples(self) -> bool:
        """Whether these are the examples that come with authfabric."""
        return self.released.release.bundle == read_folder(DEFAULT_POLICIES).hash

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.released.release.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        return f"{self.released}{' (the examples)' * self.examples}, since {since}"


def questions(examples: bool) -> list[str]:
    """What could be asked: about what the examples are about, where they are in force."""
    if not examples:
        return ["ask SUBJECT OBJECT ACTION --explain", "policy list"]
    return ["ask alice /sales/q1 read", "ask bob /sales/q1 approve -s role=clerk --explain"]


def _events() -> str:
    """What is said of event applications."""
    names = list(all_hosted())
    shown = (
        ", ".join(names) if names else f"no application yet: [bold]{program()} event apply FILE[/] makes one"
    )
    return f"events        {shown}\nlogs of them  {hosted_logs()}\n"


def _say_ready(running: Fabric, in_force: InForce | None, console: str, json: bool, events: bool) -> None:
    decided_by = str(in_force or running.policies)
    if json:
        names = {name: replica.ready.health for name, replica in running.replicas.items()}
        trust = str(running.root.public)
        ready = {"url": running.url, "replicas": names, "policies": decided_by, "trust": trust}
        print_json({**ready, "console": console})
        return
    examples = running.policies == DEFAULT_POLICIES if in_force is None else in_force.examples
    asking = "".join(f"  [bold]{program()} {each}[/]\n" for each in questions(examples))
    required = '"alice", "/sales/q1", "read"' if examples else "SUBJECT, OBJECT, ACTION"
    out.print(
        Panel(
            f"NATS server   [bold]{running.url}[/]{_security(running)}\n"
            f"PDP replicas  {', '.join(f'{n} (pid {r.pid})' for n, r in sorted(running.replicas.items()))}\n"
            f"policies      {decided_by}\n"
            f"kept in       {running.folder.parent}\n"
            f"{_events() if events else ''}\n"
            "Ask from another terminal:\n"
            f"{asking}\n"
            "Change the policies:\n"
            f"  [bold]{program()} policy push DIR --wait[/]\n\n"
            f"Or ask from a service{_environment(running)}:\n"
            "  async with Enforcer.connect() as pep:\n"
            f"      await pep.require({required})\n\n"
            "Ctrl-C ends it; the next `up` goes on with what is kept, `up --fresh` without.",
            title="authfabric is up",
            expand=False,
        ),
        highlight=False,
    )
    if console:  # in a line of its own, to be clicked or copied
        out.print(f"See it in a browser: {console}", highlight=False, soft_wrap=True)
