"""`authfabric rules`: lay out, check and explain rules of interaction control."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import Annotated

import msgspec
import typer

from authfabric.commands.begin.ask import read_attributes
from authfabric.commands.events.context import read_rows
from authfabric.commands.policies.check import report_findings
from authfabric.files import FileRefused, read_file, read_types, role_seniors, rule_files
from authfabric.interaction import Situation, Surroundings, check_use, explain_rules, show_report
from authfabric.terminal import Exit, Json, fail, print_json, printable, say
from authz import AuthFabricError, Entity, InvalidRequest
from authz.errors import InvalidSyntax
from authz.predicate import Path as AttributePath
from authz.rules import parse_term
from authz.rules.layout import format_rules
from pdp.documents import Finding, Kind
from pdp.lint import check_interaction
from pdp.rules import REPLAY, SUBSCRIBE, Interaction, RuleFile, read_rule_file
from pubsub_core.rules import Fluent, Rows

app = typer.Typer(help="Rules about who receives which events, and in which form.", no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(help="Files of rules, NAME.rules, or folders with them.")]
Functions = Annotated[
    list[str] | None,
    typer.Option("--function", help="A function that the brokers have. Repeat it for several."),
]
Types = Annotated[
    Path | None,
    typer.Option(
        "--types", metavar="DIR", help="A folder with signed type definitions, to hold the rules against."
    ),
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
        laid_out = {file: _laid_out(file) for file in rule_files(files)}
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
    report_findings(findings, strict, json)


@app.command()
def explain(
    files: Files,
    subject: Annotated[str, typer.Option("--subject", help="Who wants the events.")],
    type_: Annotated[str, typer.Option("--type", help="The type of the events.")],
    role: Annotated[
        list[str] | None, typer.Option("--role", help="A role of the subject. Repeat it for several.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute", metavar="NAME=VALUE", help="What else is known of the subject: `user.NAME`."
        ),
    ] = None,
    sub: Annotated[
        list[str] | None,
        typer.Option("--sub", metavar="NAME=VALUE", help="What the filter of the request fixes: `sub.NAME`."),
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Ask for past events, not for future ones.")
    ] = False,
    event: Annotated[
        str | None, typer.Option("--event", metavar="JSON", help="The attributes of an event.")
    ] = None,
    fluent: Annotated[
        list[str] | None,
        typer.Option(
            "--fluent", help="What holds, such as \"treating('ann', 'p1')\". Repeat it for several."
        ),
    ] = None,
    function: Functions = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME=FILE",
            help="A context table, as `context load` takes it. Repeat it for several.",
        ),
    ] = None,
    types: Types = None,
    json: Json = False,
) -> None:
    """Say which rules apply to a subject and an event, which are overridden, what brokers judge, and what is seen.

    Exit code 0: the subject receives something. 1: nothing. Without --types, the types are guessed from the event.
    """
    try:
        now = time()
        situation = Situation(
            Entity(subject, {**read_attributes(attribute), "roles": list(role or ())}),
            type_,
            REPLAY if replay else SUBSCRIBE,
            read_attributes(sub),
            _event(event),
            [_fact(each) for each in fluent or ()],
            frozenset(function or ()),
            dict(_table(each) for each in table or ()),
            now,
        )
    except (InvalidRequest, InvalidSyntax) as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
    try:
        rules = Interaction.of(
            [read_file(file, read_rule_file) for file in rule_files(files)], role_seniors(files)
        )
        report = explain_rules(rules, situation, read_types(types, now) if types is not None else None)
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(report)
    else:
        show_report(report)
    if not report.allowed or report.seen == ():
        raise typer.Exit(Exit.DENIED)


def find(files: list[Path], around: Surroundings) -> list[Finding]:
    """What is wrong with the rules of these files and folders together. Raises FileRefused."""
    parsed, findings = list[RuleFile](), list[Finding]()
    for file in rule_files(files):
        try:
            parsed.append(read_file(file, read_rule_file))
        except InvalidSyntax as error:
            findings.append(_syntax(error))
    if not findings:
        try:
            interaction = Interaction.of(parsed, role_seniors(files))
        except InvalidSyntax as error:
            return [_syntax(error)]
        findings = [*check_interaction(interaction), *check_use(interaction, around)]
    return sorted(findings, key=lambda each: (each.file, each.line, each.column))


def _laid_out(file: Path) -> tuple[str, str]:
    """The text of a file, and as it should be."""
    return read_file(file, lambda text, source: (text, format_rules(text, source)))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileRefused(file, f"cannot be written: {error.strerror}") from None


def _syntax(error: InvalidSyntax) -> Finding:
    return Finding(Kind.SYNTAX, error.source, error.line, error.column, error.problem)


def _event(text: str | None) -> dict[str, object] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, object]) if text is not None else None
    except msgspec.MsgspecError as error:
        raise InvalidRequest("event", f"must be a JSON object of attributes: {error}") from None


def _fact(text: str) -> Fluent:
    """A fluent, or a call of a function, of things named as strings, numbers or bare words."""
    call = parse_term(text).base
    things = [
        str(each.keys[0]) if isinstance(each, AttributePath) and each.keys else each
        for each in call.arguments
    ]
    if not all(isinstance(each, str | int | float | bool) for each in things):
        raise InvalidRequest(text, "must be about constants, such as treating('ann', 'p1')")
    return Fluent(call.name, tuple(each for each in things if isinstance(each, str | int | float | bool)))


def _table(text: str) -> tuple[str, Rows]:
    name, sign, file = text.partition("=")
    if not name or not sign:
        raise InvalidRequest(text, "must be NAME=FILE, the file being CSV")
    return name, read_file(Path(file), read_rows)
