"""`authfabric experiment`: measure availability and response time, live and simulated, into one report.

Spark is imported when a command runs, and only inside `spark_eval`: without the extra, help and every other
command work.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from authfabric.commands.scale.populations import SparkRun
from authfabric.terminal import (
    Exit,
    Json,
    counted,
    err,
    escape,
    fail,
    out,
    print_json,
    say,
    say_table,
    with_option_types,
)
from authz import AuthFabricError
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.experiment import Comparison, Result

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is run, and where its report goes."""

    quick: Annotated[
        bool, typer.Option("--quick", help="The same experiment with fewer repetitions: minutes.")
    ] = False
    plan: Annotated[
        Path | None, typer.Option("--plan", help="The experiment as a YAML file. Default: the paper's.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The folder to write. Default: experiment- and the command."
        ),
    ] = None


@app.callback()
def experiment() -> None:
    """Measure availability and response time: live on NATS, simulated on Spark and by formula, into one report."""


@app.command("all")
@with_option_types
def everything(*, options: RunOptions, spark_run: SparkRun, json: Json = False) -> None:
    """Run everything there is. Exit code 1 if what was measured does not agree with the formula."""
    _run("all", options, spark_run, json)


@app.command()
@with_option_types
def availability(*, options: RunOptions, spark_run: SparkRun, json: Json = False) -> None:
    """How many requests fail when PDPs do. Exit code 1 if that does not agree with the formula."""
    _run("availability", options, spark_run, json)


@app.command("response-time")
@with_option_types
def response_time(*, options: RunOptions, spark_run: SparkRun, json: Json = False) -> None:
    """How long answers take when nothing fails."""
    _run("response-time", options, spark_run, json)


@app.command()
@with_option_types
def recovery(*, options: RunOptions, spark_run: SparkRun, json: Json = False) -> None:
    """Who is answered while PDPs, servers or brokers are away, and how long until all is as before."""
    _run("recovery", options, spark_run, json)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="The folder of one run.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The folder of another.")],
    json: Json = False,
) -> None:
    """Show what changed from one run to another: plans, machines, points of availability and response times.

    A point has changed if its two intervals are apart, a response time if its median is a quarter away.
    """
    try:
        require_spark()
        from spark_eval.jobs import compare_experiments

        found = compare_experiments(before, after)
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(found)
    else:
        _say_comparison(found)


def _run(what: str, options: RunOptions, spark_run: SparkRun, json: bool) -> None:
    if options.quick and options.plan:
        fail("`--quick` names a plan, and so does `--plan`: choose one", Exit.USAGE)
    try:
        require_spark()
        from authfabric.chaos import whole_fabric
        from authfabric.commands.scale.experiment_fabric import shipped_fabric
        from spark_eval.experiment import Part, load, shipped
        from spark_eval.jobs import REPORT, ExperimentJob, run_experiment
        from spark_eval.runtime import Steps

        job = ExperimentJob(
            plan=load(options.plan or shipped("quick" if options.quick else "full")),
            parts=frozenset(Part) if what == "all" else frozenset([Part(what)]),
            out=options.out or Path(f"experiment-{what}"),
            command=shlex.join(["authfabric", *sys.argv[1:]]),
            spark=spark_run.options,
            shipped=shipped_fabric,
            whole=whole_fabric,
        )
        result = run_experiment(job, Steps(None if json else err))
    except AuthFabricError as error:
        fail(error)
    report = job.out / REPORT
    if json:
        print_json(_document(result, report))
    else:
        _say(result, report)
    if result.failures:
        raise typer.Exit(Exit.FAILED)
    if result.differing:
        raise typer.Exit(Exit.DENIED)


def _document(result: Result, report: Path) -> dict[str, object]:
    return {
        "report": str(report),
        "points": len(result.availability),
        "differing": result.differing,
        "untold": result.untold,
        "failures": result.failures,
        "twins": result.twins,
        "availability": result.availability,
        "response_time": result.response_time,
    }


def _say(result: Result, report: Path) -> None:
    points, differing, twins = result.availability, result.differing, result.twins
    if points:
        agreeing = sum(point.agrees is True for point in points)
        open_ = f", {len(result.untold)} have intervals too wide to tell" if result.untold else ""
        _print(f"{agreeing} of {len(points)} points agree with the formula{open_}")
    for point in differing:
        found = f"{point.decrease:.2%} ± {point.margin:.2%} fewer failed requests"
        _print(f"  {point.source}, {point.cell}: {found}, not {point.expected:.2%}")
    if twins.runs:
        _print(f"{twins.alike} of {twins.runs} live runs failed as their simulated twins did")
    for name, problem in result.failures.items():
        _print(f"could not be measured: {name}: {problem}")
    _print(f"report: {report}")


def _say_comparison(found: Comparison) -> None:
    for line in found.plan:
        say(f"plan: {escape(line)}")
    for line in found.machine:
        say(f"machine: {escape(line)}")
    points, times = found.changed_points, found.changed_times
    say(f"{counted(len(points), 'point')} of {len(found.points)} changed")
    if points:
        rows = [
            [
                escape(f"{each.source}, {each.cell}"),
                f"{each.before:.2%} ± {each.margin_before:.2%}",
                f"{each.after:.2%} ± {each.margin_after:.2%}",
            ]
            for each in points
        ]
        say_table(["point", "fewer failed, A", "B"], rows)
    say(f"{counted(len(times), 'response time')} of {len(found.times)} changed")
    if found.times:
        timed = [
            [
                escape(f"{each.figure}: {each.variant}"),
                f"{each.before * 1e6:,.0f} µs",
                f"{each.after * 1e6:,.0f} µs",
                f"{each.ratio:.2f} times" + (" *" if each.changed else ""),
            ]
            for each in found.times
        ]
        say_table(["response time", "median, A", "B", "ratio"], timed)
    for each in found.only_before:
        say(f"only in A: {escape(each)}")
    for each in found.only_after:
        say(f"only in B: {escape(each)}")


def _print(text: str) -> None:
    out.print(escape(text), highlight=False, soft_wrap=True)
