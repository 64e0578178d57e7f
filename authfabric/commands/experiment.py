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
from rich.markup import escape

from authfabric.populations import LOCAL, Master, Verbose
from authfabric.terminal import Exit, Json, err, fail, out, print_json
from authz import AuthFabricError
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.experiment.points import Result
    from spark_eval.jobs.experiment import Order

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
    _run("availability", _Options(quick, plan, out, master, verbose, json))


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
    _run("response-time", _Options(quick, plan, out, master, verbose, json))


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
    _run("all", _Options(quick, plan, out, master, verbose, json))


@dataclass(frozen=True, slots=True)
class _Options:
    """What was typed."""

    quick: bool
    plan: Path | None
    out: Path | None
    master: str
    verbose: bool
    json: bool


def _run(name: str, options: _Options) -> None:
    if options.quick and options.plan:
        fail("`--quick` names a plan, and so does `--plan`: choose one", Exit.USAGE)
    try:
        require_spark()
        order = _order(name, options)
        from spark_eval.jobs.experiment import REPORT, run
        from spark_eval.progress import Steps

        result = run(order, Steps(None if options.json else err))
    except AuthFabricError as error:
        fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    report = order.out / REPORT
    if options.json:
        print_json(_document(result, report))
    else:
        _say(result, report)
    if result.differing or result.twins.alike < result.twins.runs:
        raise typer.Exit(Exit.DENIED)


def _order(name: str, options: _Options) -> Order:
    from spark_eval.experiment.plan import Part, load, shipped
    from spark_eval.jobs.experiment import Order
    from spark_eval.session import SparkOptions

    return Order(
        plan=load(options.plan or shipped("quick" if options.quick else "full")),
        parts=frozenset(Part) if name == "all" else frozenset([Part(name)]),
        out=options.out or Path(f"experiment-{name}"),
        command=shlex.join(["authfabric", *sys.argv[1:]]),
        spark=SparkOptions(options.master, options.verbose),
    )


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
