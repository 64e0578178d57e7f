"""The command line behind `authfabric.entry`. Only the command that is asked for is loaded, with what it needs."""

from __future__ import annotations

import io
import logging
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command, get_group

from authfabric import __version__
from authfabric.command_table import COMMANDS, PURPOSE, SECTIONS
from authfabric.help import Command, Group


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
        print(f"authfabric {__version__}")
        raise typer.Exit


@app.callback(help=PURPOSE)
def authfabric(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is."),
    ] = False,
) -> None:
    """What every command has."""


LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main() -> None:
    logging.basicConfig(format=LOG_FORMAT)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not end a command
            stream.reconfigure(errors="backslashreplace")
    app()
