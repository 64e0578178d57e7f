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
        "init": "begin.init",
        "up": "begin.up",
        "ask": "begin.ask",
        "doctor": "begin.doctor",
        "demo": "begin.demo",
    },
    "Decisions": {
        "policy": "policies.policy",
        "search": "decisions.search",
        "pdp": "decisions.pdp",
        "sdp": "decisions.sdp",
        "gateway": "decisions.gateway",
        "roles": "decisions.roles",
        "audit": "decisions.audit",
    },
    "Trust": {"domain": "trust.domain", "cap": "trust.cap"},
    "Events": {
        "event": "events.event",
        "type": "events.event_type",
        "broker": "events.broker",
        "rules": "events.rules",
        "context": "events.context",
        "history": "events.history",
        "keys": "events.keys",
    },
    "At scale": {"spark": "scale.spark", "experiment": "scale.experiment", "chaos": "scale.chaos"},
}
"""What people type, and the module in authfabric/commands that does it: its `app`, or a function of its own name."""

COMMANDS = {name: module for section in SECTIONS.values() for name, module in section.items()}


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
            self.write_commands(ctx, formatter, title, list(section))


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
