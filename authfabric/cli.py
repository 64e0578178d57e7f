"""The command line behind `authfabric.entry`. Only the command that is asked for is loaded, with what it needs."""

from __future__ import annotations

import gc
import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command, get_group

from authfabric import __version__
from authfabric.command_table import COMMANDS, PURPOSE, SECTIONS
from authfabric.help import Command, Group
from bus.runtime import FORMAT_VARIABLE, LEVEL_VARIABLE, LogFormat, LogLevel, configure_logs, log_settings


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
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is."),
    ] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            metavar="FORMAT",
            help="How logs are written: text or json. Default: $AUTHFABRIC_LOG_FORMAT, or text.",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            metavar="LEVEL",
            help="What is logged: debug, info, warning or error. Default: $AUTHFABRIC_LOG_LEVEL, or warning.",
        ),
    ] = None,
) -> None:
    """What every command has. The processes that it starts log as it does."""
    if not gc.isenabled():  # `authfabric.entry` switched it off, and by now the command is loaded
        gc.freeze()
        gc.enable()
    given = {FORMAT_VARIABLE: log_format, LEVEL_VARIABLE: log_level}
    os.environ.update({variable: value for variable, value in given.items() if value is not None})
    try:
        configure_logs(*log_settings(os.environ), process_name(ctx.invoked_subcommand or "", sys.argv))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def process_name(command: str, words: list[str]) -> str:
    """The words that name a command: `ask`, `pdp serve`."""
    module = sys.modules.get(f"authfabric.commands.{COMMANDS.get(command)}")
    at = words.index(command) + 1 if command in words else len(words)
    return " ".join([command, *words[at : at + 1]]) if hasattr(module, "app") else command


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show must not end a command
            stream.reconfigure(errors="backslashreplace")
    app()
