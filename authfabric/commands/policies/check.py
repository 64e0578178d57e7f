"""`authfabric policy check` and `test`: what is wrong with policies, before they are in force."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from authfabric.terminal import Exit, Json, escape, fail, out, print_json
from authz import AuthFabricError
from pdp.bundle import PolicySet, read_cases, read_folder
from pdp.documents import Finding, Level
from pdp.lint import Outcome, Report, run_cases
from pdp.lint import check as check_bundle
from pdp.lint import read_cases as parse_cases

Folder = Annotated[Path, typer.Argument(help="The folder of policies.")]

_COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.NOTE: "cyan"}


def check(
    folder: Folder,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings count as errors.")] = False,
    json: Json = False,
) -> None:
    """Find what is wrong with policies: errors, unknown attributes, policies that never apply or never decide.

    Exit code 0: nothing wrong. 1: errors, or with --strict also warnings.
    """
    try:
        findings = check_bundle(read_folder(folder))
    except AuthFabricError as error:
        fail(error)
    report_findings(findings, strict, json)


def run_tests(
    folder: Folder,
    cases: Annotated[
        Path | None, typer.Argument(help="A file of cases. Default: those in the folder of policies.")
    ] = None,
    json: Json = False,
) -> None:
    """Run test cases against policies, and report which policies no case was decided by.

    Exit code 0: every case got the answer it expects. 1: some did not, or there are none.
    """
    try:
        policies = PolicySet.read(read_folder(folder))
        report = run_cases(policies, parse_cases(read_cases(cases or folder)))
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(_report_document(report))
    else:
        _show_report(report)
    if report.failures or not report.outcomes:
        raise typer.Exit(Exit.DENIED)


def report_findings(findings: list[Finding], strict: bool, json: bool) -> None:
    """Show what was found, and end with code 1 if there are errors, or with `strict` warnings."""
    counting = {Level.ERROR, Level.WARNING} if strict else {Level.ERROR}
    wrong = [each for each in findings if each.level in counting]
    if json:
        print_json({"ok": not wrong, "findings": [_document(each) for each in findings]})
    else:
        _show_findings(findings)
    if wrong:
        raise typer.Exit(Exit.DENIED)


def _show_findings(findings: list[Finding]) -> None:
    for each in findings:
        out.print(
            f"{escape(each.file)}:{each.line}:{each.column}: [{_COLOURS[each.level]}]{each.level}[/]:"
            f" {escape(each.text)}",
            highlight=False,
            soft_wrap=True,
        )
    if all(each.level is Level.NOTE for each in findings):
        out.print("[green]nothing wrong[/]")


def _document(finding: Finding) -> dict[str, object]:
    return {
        "level": finding.level,
        "kind": finding.kind,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "policy": finding.policy,
        "text": finding.text,
    }


def _show_report(report: Report) -> None:
    for each in report.failures:
        out.print(
            f"[red]✗[/] {escape(str(each.placed))}: {escape(each.problem)}", highlight=False, soft_wrap=True
        )
        for line in str(each.explanation).splitlines()[1:]:
            out.print(f"    {escape(line)}", highlight=False, soft_wrap=True)
    passed = len(report.outcomes) - len(report.failures)
    if not report.outcomes:
        out.print("[red]no cases[/]: write some in `cases.yaml` beside the policies", highlight=False)
        return
    colour = "red" if report.failures else "green"
    out.print(f"[{colour}]{passed} of {len(report.outcomes)} cases passed[/]", highlight=False)
    total = len(report.exercised) + len(report.unexercised)
    out.print(
        f"{len(report.exercised)} of {total} policies decided some case ({report.coverage:.0%})",
        highlight=False,
    )
    for name in report.unexercised:
        out.print(f"  [yellow]never[/] {escape(name)}", highlight=False)


def _report_document(report: Report) -> dict[str, object]:
    return {
        "ok": not report.failures and bool(report.outcomes),
        "cases": [_outcome_document(each) for each in report.outcomes],
        "coverage": round(report.coverage, 4),
        "exercised": report.exercised,
        "unexercised": report.unexercised,
    }


def _outcome_document(outcome: Outcome) -> dict[str, object]:
    placed = outcome.placed
    return {
        "name": placed.case.name,
        "file": placed.file,
        "line": placed.line,
        "request": str(placed.case.request),
        "expected": placed.case.expect,
        "got": outcome.decision.effect,
        "policies": outcome.decision.policies,
        "problem": outcome.problem,
    }
