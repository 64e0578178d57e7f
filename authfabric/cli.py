"""The command line: `authfabric`. Only the command that is asked for is loaded, and with it only what it needs."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command, get_group

from authfabric.help import Command, Group

SECTIONS = {
    "Begin here": {
        "init": (
            "begin.init",
            "Write a folder of policies with tests, and a service that is protected by them.",
        ),
        "up": (
            "begin.up",
            "Run a NATS server, PDP replicas and the console until Ctrl-C; `authfabric policy push` changes policies.",
        ),
        "ask": ("begin.ask", "Ask whether SUBJECT may do ACTION to OBJECT."),
        "status": (
            "begin.status",
            "Show what is in force, which member decides by what, and how servers and streams are.",
        ),
        "doctor": (
            "begin.doctor",
            "Check this machine, the server and the replicas; say what is wrong and what to do.",
        ),
        "console": ("begin.console", "The fabric in a browser: members, decisions, policies, releases."),
        "demo": (
            "begin.demo",
            "Start a fabric, ask from several services, kill one replica, freeze another, add a third: nothing fails.",
        ),
    },
    "Decisions": {
        "policy": (
            "policies.policy",
            "Check, test, compare, build, push, list, roll back and restore policies.",
        ),
        "search": ("decisions.search", "Find who may do what, among known entities."),
        "pdp": ("decisions.pdp", "Run policy decision points."),
        "sdp": ("decisions.sdp", "Run a secondary decision point that several services share."),
        "gateway": ("decisions.gateway", "Answer AuthZEN requests over HTTP, for services in any language."),
        "roles": ("decisions.roles", "Role sessions: keep them, and activate roles in them by proof."),
        "audit": ("decisions.audit", "See which decisions were given, and whether any are missing."),
    },
    "Trust": {
        "domain": ("trust.domain", "Domains: who may connect, and what they may do there."),
        "cap": ("trust.cap", "Capabilities: signed certificates of who may do what, and chains of them."),
    },
    "Events": {
        "event": (
            "events.event",
            "Event applications from one file, and their events: publish, subscribe, replay.",
        ),
        "type": ("events.event_type", "Event types: definitions that their owners sign."),
        "broker": ("events.broker", "Event brokers, and those who use them."),
        "rules": ("events.rules", "Rules about who receives which events, and in which form."),
        "context": ("events.context", "The tables that rules look things up in."),
        "history": ("events.history", "What brokers have kept of the events that were published."),
        "keys": ("events.keys", "Keys of encrypted events: who manages them, and who holds them."),
    },
    "At scale": {
        "spark": ("scale.spark", "Decide about everyone and everything at once."),
        "experiment": (
            "scale.experiment",
            "Measure availability and response time: live on NATS, simulated on Spark and by formula, into one report.",
        ),
        "chaos": (
            "scale.chaos",
            "Strike a fabric with random faults while it works, and check that it kept its promises.",
        ),
    },
}
"""What people type, the module in authfabric/commands that does it, and what it says of itself in one sentence.

A module has an `app`, or a function of the command's own name. The sentence stands here so that `--help` loads none.
"""

COMMANDS = {name: module for section in SECTIONS.values() for name, (module, _) in section.items()}


class Commands(Group):
    """All commands, each loaded when it is looked at."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and (near := _nearest(args[0])):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, sentence) for name, (_, sentence) in section.items()])


def _nearest(word: str) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, COMMANDS)), None)


def _load(name: str) -> Any:
    module = import_module(f"authfabric.commands.{COMMANDS[name]}")
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if not hasattr(module, "app"):
        alone.command(name, cls=Command)(getattr(module, name))
        return get_command(alone)
    for each in module.app.registered_commands:
        each.cls = Command
    alone.add_typer(module.app, name=name, cls=Group)
    return get_group(alone).commands[name]


app = typer.Typer(
    cls=Commands,
    name="authfabric",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(f"authfabric {metadata.version('authfabric')}")
        raise typer.Exit


@app.callback()
def authfabric(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is."),
    ] = False,
) -> None:
    """An authorization fabric: services ask, any policy decision point that can answer does."""


LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main() -> None:
    logging.basicConfig(format=LOG_FORMAT)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not end a command
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:  # a full disk, a file that may not be read
        from authfabric.terminal import Exit

        print(f"error: {error}", file=sys.stderr)
        with contextlib.suppress(OSError):  # what could not be written is not tried again when Python ends
            sys.stdout.close()
        sys.exit(Exit.FAILED)
