"""`authfabric experiment`: measure availability and response time, live and simulated, into one report.

Spark is imported when a command runs, and only inside `spark_eval`: without the extra, help and every other
command work.
"""

from __future__ import annotations

import enum
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from authfabric.commands.scale.populations import LOCAL, Master, Verbose
from authfabric.terminal import Exit, Json, err, fail, out, print_json
from authz import AuthFabricError
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.experiment import Result


class What(enum.StrEnum):
    """What can be measured."""

    AVAILABILITY = "availability"
    RESPONSE_TIME = "response-time"
    ALL = "all"


def experiment(
    what: Annotated[
        What,
        typer.Argument(
            help="availability: how many requests fail when PDPs do; response-time: how long answers take; or all."
        ),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="The same experiment with fewer repetitions: minutes.")
    ] = False,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="The experiment as a YAML file. Default: the paper's.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The folder to write. Default: experiment-WHAT."),
    ] = None,
    master: Master = LOCAL,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Measure availability and response time: live on NATS, simulated on Spark and by formula, into one report.

    Ends with exit code 1 if what was measured does not agree with the formula.
    """
    if quick and plan:
        fail("`--quick` names a plan, and so does `--plan`: choose one", Exit.USAGE)
    try:
        require_spark()
        from spark_eval.experiment import Part, load, shipped
        from spark_eval.jobs import REPORT, ExperimentJob, run_experiment
        from spark_eval.runtime import SparkOptions, Steps

        job = ExperimentJob(
            plan=load(plan or shipped("quick" if quick else "full")),
            parts=frozenset(Part) if what is What.ALL else frozenset([Part(what)]),
            out=folder or Path(f"experiment-{what}"),
            command=shlex.join(["authfabric", *sys.argv[1:]]),
            spark=SparkOptions(master, verbose),
        )
        result = run_experiment(job, Steps(None if json else err))
    except AuthFabricError as error:
        fail(error)
    report = job.out / REPORT
    if json:
        print_json(_document(result, report))
    else:
        _say(result, report)
    if result.differing:
        raise typer.Exit(Exit.DENIED)


def _document(result: Result, report: Path) -> dict[str, object]:
    return {
        "report": str(report),
        "points": len(result.availability),
        "differing": result.differing,
        "twins": result.twins,
        "availability": result.availability,
        "response_time": result.response_time,
    }


def _say(result: Result, report: Path) -> None:
    points, differing, twins = result.availability, result.differing, result.twins
    if points:
        _print(f"{len(points) - len(differing)} of {len(points)} points agree with the formula")
    for point in differing:
        found = f"{point.decrease:.2%} ± {point.margin:.2%} fewer failed requests"
        _print(f"  {point.source}, {point.cell}: {found}, not {point.expected:.2%}")
    if twins.runs:
        _print(f"{twins.alike} of {twins.runs} live runs failed as their simulated twins did")
    _print(f"report: {report}")


def _print(text: str) -> None:
    out.print(escape(text), highlight=False, soft_wrap=True)
