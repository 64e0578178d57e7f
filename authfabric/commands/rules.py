"""`authfabric rules`: lay out, check and explain rules of interaction control."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.capability_files import FileRefused, read
from authfabric.commands.linting import finding_document, show_findings
from authfabric.rule_check import Surroundings, check_use
from authfabric.terminal import Exit, Json, fail, print_json, printable, say
from authfabric.type_files import read_types
from authz import AuthFabricError
from authz.errors import InvalidSyntax
from authz.rules.layout import format_rules
from pdp.finding import Finding, Kind, Level
from pdp.rules import Interaction, RuleFile, read_rule_file
from pdp.rules.check import check_interaction

app = typer.Typer(help="Rules about who receives which events, and in which form.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(help="Files of rules, NAME.rules.")]
Functions = Annotated[
    list[str] | None,
    typer.Option("--function", help="A function that the brokers have. Repeat it for several."),
]
Types = Annotated[
    Path | None,
    typer.Option("--types", help="A folder of signed type definitions, to hold the rules against."),
]


@app.command()
def fmt(
    files: Files,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; only say what would change.")
    ] = False,
    json: Json = False,
) -> None:
    """Lay rules out in the one way there is. Comments stay with the rules they stand before.

    Exit code 0: done, or with --check nothing to do. 1: with --check, some files would change.
    """
    try:
        laid_out = {file: _laid_out(file) for file in files}
        changed = [file for file, (before, after) in laid_out.items() if before != after]
        for file in changed if not check else ():
            _write(file, laid_out[file][1])
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json({"ok": not (check and changed), "changed": [str(each) for each in changed]})
    else:
        for file in changed:
            say(f"{'would change' if check else 'changed'} {printable(str(file))}")
        if not changed:
            say("[green]nothing to change[/]")
    if check and changed:
        raise typer.Exit(Exit.DENIED)


@app.command()
def check(
    files: Files,
    types: Types = None,
    function: Functions = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count as errors.")] = False,
    json: Json = False,
) -> None:
    """Find what is wrong with rules: unknown labels, fluents, steps and types, rules that never apply or add nothing.

    Exit code 0: nothing wrong. 1: errors, or with --strict also warnings.
    """
    try:
        catalogue = read_types(types, time()) if types is not None else None
        findings = find(files, Surroundings(tuple(function or ()), catalogue))
    except AuthFabricError as error:
        fail(error)
    wrong = [each for each in findings if strict or each.level is Level.ERROR]
    if json:
        print_json({"ok": not wrong, "findings": [finding_document(each) for each in findings]})
    else:
        show_findings(findings)
    if wrong:
        raise typer.Exit(Exit.DENIED)


def find(files: list[Path], around: Surroundings) -> list[Finding]:
    """What is wrong with the rules of these files together. Raises FileRefused."""
    parsed, findings = list[RuleFile](), list[Finding]()
    for file in files:
        try:
            parsed.append(read(file, read_rule_file))
        except InvalidSyntax as error:
            findings.append(_syntax(error))
    if not findings:
        try:
            interaction = Interaction.of(parsed)
        except InvalidSyntax as error:
            return [_syntax(error)]
        findings = [*check_interaction(interaction), *check_use(interaction, around)]
    return sorted(findings, key=lambda each: (each.file, each.line, each.column))


def _laid_out(file: Path) -> tuple[str, str]:
    """The text of a file, and as it should be."""
    return read(file, lambda text, source: (text, format_rules(text, source)))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileRefused(file, f"cannot be written: {error.strerror}") from None


def _syntax(error: InvalidSyntax) -> Finding:
    return Finding(Kind.SYNTAX, error.source, error.line, error.column, error.problem)
