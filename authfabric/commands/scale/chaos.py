"""`authfabric chaos`: strike a fabric with random faults while it works, and check that it kept its word."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from authfabric.chaos import SMALL, Cast, ChaosRun, FaultKind, Verdict, check, read
from authfabric.chaos import run as run_chaos
from authfabric.terminal import Exit, Json, err, escape, fail, print_json, run, say, say_table
from authz import AuthFabricError

app = typer.Typer(invoke_without_command=True)


@app.callback()
def chaos(
    context: typer.Context,
    seed: Annotated[int, typer.Option(help="What the schedule of faults follows from.")] = 1,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long faults strike.")] = 10.0,
    hours: Annotated[float, typer.Option(min=0.0, help="The same in hours, for long runs.")] = 0.0,
    only: Annotated[
        list[FaultKind] | None,
        typer.Option(
            metavar="KIND",
            help="A kind of fault that may strike. Default: all of them. Repeat it for several.",
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="The file to keep the record in. Default: chaos-SEED.ndjson.")
    ] = None,
    small: Annotated[
        bool, typer.Option(help="One access control service, two PDPs, one service, and no brokers.")
    ] = False,
    json: Json = False,
) -> None:
    """Strike a fabric with random faults while it works, and check that it kept its promises.

    Three secured NATS servers, access control, PDPs, services with caches and brokers run as processes of their own on
    this machine. Everything that is done and answered is recorded. Exit code 1 if the record shows a broken promise.
    """
    if context.invoked_subcommand is not None:
        return
    file = record or Path(f"chaos-{seed}.ndjson")
    seconds = hours * 3600 or minutes * 60
    started = monotonic()

    def tell(text: str) -> None:
        if not json:
            err.print(f"{monotonic() - started:7.1f} s  {escape(text)}", highlight=False, soft_wrap=True)

    cast = SMALL if small else Cast()
    run(run_chaos(ChaosRun(seed, seconds, file, frozenset(only or FaultKind), cast), tell))
    _judge(file, json)


@app.command("check")
def check_(
    record: Annotated[Path, typer.Argument(help="The record of a run.")],
    json: Json = False,
) -> None:
    """Check the record of an earlier run again."""
    _judge(record, json)


def _judge(file: Path, json: bool) -> None:
    try:
        verdict = check(read(file))
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(verdict)
    else:
        _show(verdict, file)
    if not verdict.holds:
        raise typer.Exit(Exit.DENIED)


def _show(verdict: Verdict, file: Path) -> None:
    promises = [
        ("allowed, and no release in force permitted it", verdict.wrong_allow),
        ("answered by a release that had ceased to count", verdict.stale),
        ("denied by a release that permits it", verdict.wrong_deny),
        ("answered by an unauthorised key", verdict.unauthorised),
        ("acknowledged and lost", verdict.lost_acknowledged),
        ("duplicated", verdict.duplicated),
        ("gaps not told", verdict.untold_gaps),
        ("delivered beyond a restriction", verdict.undue),
        ("releases gone back", verdict.epoch_regressions),
        ("unanswered although a PDP could be reached", verdict.unanswered),
    ]
    rows = [(text, f"[{'red' if count else 'green'}]{count:,}[/]") for text, count in promises]
    say_table(("what must not happen", "times"), rows)
    say(
        f"{verdict.requests:,} requests, {verdict.faults} faults of {len(verdict.kinds)} kinds,"
        f" {verdict.pushes} releases ({verdict.complete} reported complete), {verdict.published:,} events,"
        f" {verdict.audited:,} audit records"
    )
    say(
        f"unavailable: {verdict.unavailable:.4f} %; revoked rights were used for {verdict.max_revocation_ms:,.0f} ms"
        f" at most, of {verdict.bound_ms:,.0f} ms that are promised"
    )
    for each in verdict.violations:
        say(
            f"[red]{each.kind}[/]: {escape(each.text)}" + (f" ({each.count} times)" if each.count > 1 else "")
        )
    say(f"record: {escape(str(file))}")
    say("[bold green]every promise was kept[/]" if verdict.holds else "[bold red]promises were broken[/]")
