"""What `--help` prints: every name in full and every sentence to its end, also on a terminal of 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from typer.core import TyperArgument, TyperCommand, TyperGroup

from authfabric.parameters import take_plainly

WORDS = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "FILE"}
"""What stands for a value of a type, where an option names nothing better."""


class Command(TyperCommand):
    """A command that calls its values by plain words, not by Python's types."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(map(_named, super().get_params(ctx)))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [each for each in self.get_params(ctx) if isinstance(each, TyperArgument)]
        return [self.options_metavar or "", *map(_in_usage, arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)


class Group(TyperGroup):
    """Commands under one name, each with the whole first sentence about it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(map(_named, super().get_params(ctx)))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self.write_commands(ctx, formatter, "Commands", self.list_commands(ctx))

    def write_commands(self, ctx: Any, formatter: Any, title: str, names: list[str]) -> None:
        """Write one list of commands, and what each of them does."""
        with formatter.section(title):
            formatter.write_dl([(name, _first_sentence(self.get_command(ctx, name))) for name in names])


def _named(parameter: Any) -> Any:
    if parameter.metavar is None:
        parameter.metavar = _word(parameter)
    return take_plainly(parameter)


def _word(parameter: Any) -> str | None:
    if isinstance(parameter, TyperArgument):
        return str(parameter.name).upper()
    described = parameter.type_descriptor
    if described.is_choice:
        return "|".join(described.choices)
    return WORDS.get(next(iter(get_args(described.annotation)), described.annotation))


def _in_usage(argument: TyperArgument) -> str:
    name = argument.display_name_raw
    if argument.nargs != 1 and not name.endswith("..."):
        name += "..."
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    arguments: list[tuple[str, str]] = []
    options: list[tuple[str, str]] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        if isinstance(parameter, TyperArgument):
            arguments.append((_in_usage(parameter), record[1].removesuffix("  [required]")))
        else:
            options.append(record)
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def _first_sentence(command: Any) -> str:
    first: str = (command.help or "").strip().partition("\n\n")[0]
    return " ".join(first.split())
