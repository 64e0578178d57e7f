"""The command line: `authfabric`. Only the command that is asked for is loaded, and with it only what it needs."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib import import_module, metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from authfabric.terminal import Exit

COMMANDS = {
    "up": "up",
    "ask": "ask",
    "doctor": "doctor",
    "demo": "demo",
    "pdp": "pdp",
    "domain": "domain",
    "sdp": "sdp",
    "cap": "cap",
    "type": "event_type",
    "keys": "keys",
    "broker": "broker",
    "history": "history",
    "policy": "policy",
    "rules": "rules",
    "context": "context",
    "roles": "roles",
    "audit": "audit",
    "search": "search",
    "spark": "spark",
    "experiment": "experiment",
}
"""What people type, and the module in authfabric/commands that does it: its `app`, or a function of its own name."""


class Commands(TyperGroup):
    """All commands, each loaded when it is looked at."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        name = COMMANDS[cmd_name]
        module = import_module(f"authfabric.commands.{name}")
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
        if hasattr(module, "app"):
            alone.add_typer(module.app, name=cmd_name)
            return get_group(alone).commands[cmd_name]
        alone.command(cmd_name)(getattr(module, name))
        return get_command(alone)


app = typer.Typer(
    cls=Commands,
    name="authfabric",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
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


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not end a command
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:  # a full disk, a file that may not be read
        print(f"error: {error}", file=sys.stderr)
        with contextlib.suppress(OSError):  # what could not be written is not tried again when Python ends
            sys.stdout.close()
        sys.exit(Exit.FAILED)
