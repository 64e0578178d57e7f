"""`authfabric policy diff`: which decisions change from one set of policies to another."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from authfabric.commands.policies.push import Domain
from authfabric.commands.scale.populations import Population, SparkRun, stored
from authfabric.files import Trust, find_url
from authfabric.releases import PolicySources
from authfabric.terminal import (
    Exit,
    Json,
    Url,
    command_line,
    counted,
    err,
    escape,
    fail,
    print_json,
    printable,
    say,
    say_table,
    warn,
    with_option_types,
)
from authz import AuthFabricError
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import PolicySet
from pdp.lint import obliging
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.analysis import Diff, Group

SHOWN = 5
"""Groups and examples on the terminal; the report has more."""


class FailOn(enum.StrEnum):
    """Which changes make the exit code 1."""

    ANY = "any"
    GAINED = "gained"
    LOST = "lost"
    NEVER = "never"


@with_option_types
def diff(
    *,
    old: Annotated[str, typer.Argument(help="A folder, a bundle, the number of a release, or `current`.")],
    new: Annotated[str, typer.Argument(help="Likewise.")],
    seen: Annotated[
        str | None,
        typer.Option(
            help="Compare over the requests in this log instead: what `spark audit` wrote, or lines of JSON."
        ),
    ] = None,
    fail_on: Annotated[FailOn, typer.Option(help="Which changes make the exit code 1.")] = FailOn.ANY,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    domain: Domain = DEFAULT_DOMAIN,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
    population: Population,
    spark_run: SparkRun,
) -> None:
    """Find exactly which decisions change from OLD to NEW: who gains, who loses, and because of which policies.

    Over all known subjects, objects and actions, or over the requests that were asked. Exit code 0: nothing changes
    that --fail-on names. 1: something does. 3: it could not be found out.
    """
    try:
        require_spark()
        from spark_eval.analysis import LESS, MORE, Told, diff_report
        from spark_eval.jobs import SeenJob, compare_policies, compare_seen
        from spark_eval.reports import render
        from spark_eval.runtime import Steps, lazy_session, write_whole

        shelf = PolicySources(find_url(url), domain, trust)
        before, after = (shelf.find(each).bundle for each in (old, new))
        steps = Steps(None if json else err)
        with lazy_session(spark_run.options) as session:
            policies = PolicySet.read(after)
            if seen is not None:
                known = (stored(each, session) for each in (population.subjects, population.objects))
                found = compare_seen(SeenJob(before, after, seen, *known), session, steps)
            else:
                inputs = population.inputs(policies, session)
                found = compare_policies(PolicySet.read(before), inputs, session, steps)
        found = msgspec.structs.replace(found, obliging=obliging(PolicySet.read(before), policies))
        if report is not None:
            about = f"the requests in `{seen}`" if seen else "all entities"
            page = diff_report(found, Told(old, new, about, command_line()))
            write_whole(report, render(page).encode())
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(found)
    else:
        _show(found, report)
        warn(found.warnings)
    kinds = {FailOn.GAINED: MORE, FailOn.LOST: LESS, FailOn.ANY: MORE | LESS, FailOn.NEVER: ()}[fail_on]
    if found.any_of(kinds) or (fail_on is FailOn.ANY and found.obliging):
        raise typer.Exit(Exit.DENIED)


def _show(found: Diff, report: Path | None) -> None:
    if found.total:
        _show_changes(found)
    else:
        what = "no decision" if found.obliging else "nothing"
        say(f"{what} changes: {found.decisions:,} decisions are the same")
    if found.obliging:
        names = ", ".join(map(printable, found.obliging[:SHOWN])) + (
            ", …" if len(found.obliging) > SHOWN else ""
        )
        count = "1 policy" if len(found.obliging) == 1 else f"{len(found.obliging):,} policies"
        say(f"what enforcers are obliged to changes, by {count}: {names}")
    if report is not None:
        say(f"report: [bold]{escape(str(report))}[/]")


def _show_changes(found: Diff) -> None:
    other = found.total - found.gained - found.lost
    say(
        f"[bold]{found.total:,}[/] of {found.decisions:,} decisions change: [green]{found.gained:,} gained[/],"
        f" [red]{found.lost:,} lost[/], {other:,} with the context; that affects"
        f" {counted(found.subjects, 'subject')} and {counted(found.permissions, 'permission')}"
    )
    for noun, groups in (
        ("policy", found.by_policy),
        ("role", found.by_role),
        ("objects", found.by_prefix),
        ("subject", found.by_subject),
    ):
        if groups:
            say("")
            say_table((noun, "gained", "lost", "with the context"), map(_row, groups[:SHOWN]))
    say("")
    for each in found.examples[:SHOWN]:
        what = " ".join(map(escape, (each.subject, each.action, each.object)))
        before, after = _side(each.before, each.policies_before), _side(each.after, each.policies_after)
        say(f"  {what}: {before} -> {after}")


def _side(effect: str, policies: Sequence[str]) -> str:
    return effect + (f" [dim]({escape(', '.join(policies))})[/]" if policies else "")


def _row(group: Group) -> tuple[str, ...]:
    return printable(group.name), f"{group.gained:,}", f"{group.lost:,}", f"{group.other:,}"
