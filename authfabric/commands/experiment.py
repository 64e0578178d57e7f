"""`authfabric experiment`: measure availability and response time, live and simulated, into one report.

Spark is imported when a command runs, and only inside `spark_eval`: without the extra, help and every other
command work.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from authfabric.populations import LOCAL, Master, Verbose
from authfabric.terminal import Json, err, fail, out, print_json
from authz import AuthFabricError
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.experiment.points import Result

app = typer.Typer(help="Measure availability and response time into one report.", no_args_is_help=True)

Quick = Annotated[bool, typer.Option("--quick", help="The same experiment with fewer repetitions: minutes.")]
Plan = Annotated[
    Path | None, typer.Option("--plan", help="The experiment as a YAML file. Default: the paper's.")
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder to write. Default: experiment-NAME.")]


@app.command()
def availability(
    quick: Quick = False,
    plan: Plan = None,
    out: Out = None,
    master: Master = LOCAL,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """How many requests fail when PDPs do, against point to point: live on NATS, simulated, and by formula."""
    _run("availability", quick, plan, out, master, verbose, json)


@app.command("response-time")
def response_time(
    quick: Quick = False,
    plan: Plan = None,
    out: Out = None,
    master: Master = LOCAL,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """How long an answer takes: by subscriptions, unsubscribing, recycling and the number of PDPs."""
    _run("response-time", quick, plan, out, master, verbose, json)


@app.command("all")
def all_(
    quick: Quick = False,
    plan: Plan = None,
    out: Out = None,
    master: Master = LOCAL,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Both, in one report."""
    _run("all", quick, plan, out, master, verbose, json)


def _run(
    name: str, quick: bool, plan: Path | None, folder: Path | None, master: str, verbose: bool, json: bool
) -> None:
    try:
        require_spark()
        from spark_eval.experiment.plan import Part, load, shipped
        from spark_eval.jobs.experiment import REPORT, Order, run
        from spark_eval.progress import Steps
        from spark_eval.session import SparkOptions

        order = Order(
            plan=load(plan or shipped("quick" if quick else "full")),
            parts=frozenset(Part) if name == "all" else frozenset([Part(name)]),
            out=folder or Path(f"experiment-{name}"),
            command=shlex.join(["authfabric", *sys.argv[1:]]),
            spark=SparkOptions(master, verbose),
        )
        result = run(order, Steps(None if json else err))
    except AuthFabricError as error:
        fail(error)
    report = order.out / REPORT
    if json:
        print_json(
            {
                "report": str(report),
                "availability": result.availability,
                "response_time": result.response_time,
            }
        )
    else:
        _say(result, report)


def _say(result: Result, report: Path) -> None:
    if result.availability:
        agreeing = sum(point.agrees for point in result.availability)
        out.print(f"{agreeing} of {len(result.availability)} points agree with the formula", highlight=False)
    if result.twins.runs:
        out.print(
            f"{result.twins.alike} of {result.twins.runs} live runs failed as their simulated twins",
            highlight=False,
        )
    out.print(f"report: [bold]{report}[/]", highlight=False)
