"""`authfabric spark`: decisions about everyone and everything at once, by jobs on Spark.

Spark is imported when a command runs, and only inside `spark_eval`: without the extra, help and every other command
work.
"""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from authfabric.commands.policies.push import Domain, Key
from authfabric.commands.scale.populations import Population, SparkRun
from authfabric.files import Trust, find_url, own_identity
from authfabric.releases import CURRENT, PolicySources
from authfabric.terminal import (
    Exit,
    Json,
    Url,
    command_line,
    counted,
    err,
    fail,
    print_json,
    printable,
    run,
    say,
    warn,
    with_option_types,
)
from authz import AuthFabricError
from bus.wire import DEFAULT_DOMAIN
from pdp.bundle import PolicySet
from sdp_cache.snapshots import Origin
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.analysis import Review, Usage
    from spark_eval.jobs import Anomaly, Chains, Done, PrecomputeJob

DAY = 86_400.0
SHOWN = 5
"""Maximum findings of each kind on the terminal; the report has more."""

Policies = Annotated[str, typer.Option(help="A folder, a bundle, the number of a release, or `current`.")]

app = typer.Typer(help="Decide about everyone and everything at once.", no_args_is_help=True)


@app.callback()
def spark() -> None:
    """Decide about everyone and everything at once."""


@app.command()
@with_option_types
def precompute(
    *,
    output: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to write, or to bring up to date.")
    ],
    policies: Policies = CURRENT,
    epoch: Annotated[
        int | None, typer.Option(help="With a folder or a bundle: under which epoch it is in force.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Compute everything anew, whatever is there.")] = False,
    lifetime: Annotated[
        float, typer.Option(min=1.0, help="Seconds for which caches may use the snapshot.")
    ] = DAY,
    assume_provided: Annotated[
        bool,
        typer.Option(
            "--assume-provided", help="PDPs know these attributes of entities, whatever the manifest says."
        ),
    ] = False,
    domain: Domain = DEFAULT_DOMAIN,
    key: Key = None,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
    population: Population,
    spark_run: SparkRun,
) -> None:
    """Compute every decision in advance: as Parquet for analysis, and as the signed snapshot that caches load.

    Run again after policies or entities have changed, it computes only what has. Services load the snapshot with
    Enforcer.connect(snapshot=OUT/decisions.snapshot).
    """
    try:
        require_spark()
        identity = own_identity(key)
        found = PolicySources(find_url(url), domain, [*(trust or ()), str(identity.public)]).find(policies)
        if found.epoch is None and epoch is None:
            fail(
                "`--epoch` is missing: caches use a snapshot only under the epoch it is made for", Exit.USAGE
            )
        from spark_eval.jobs import PrecomputeJob, precompute_decisions
        from spark_eval.runtime import Steps, lazy_session

        with lazy_session(spark_run.options) as session:
            read = PolicySet.read(found.bundle)
            job = PrecomputeJob(
                population.inputs(read, session),
                Origin(domain, found.epoch or epoch or 0, found.bundle.hash),
                identity,
                output,
                full,
                time() + lifetime,
                assume_provided,
            )
            done = precompute_decisions(job, session, Steps(None if json else err))
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(_document(job, done))
    else:
        _say(job, done)
        warn(done.warnings)


@app.command()
@with_option_types
def review(
    *,
    policies: Policies = CURRENT,
    log: Annotated[
        str | None,
        typer.Option(help="Requests that were asked: what `spark audit` wrote, or lines of JSON."),
    ] = None,
    duties: Annotated[
        Path | None, typer.Option(help="A YAML file of duties that nobody may have at once.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    domain: Domain = DEFAULT_DOMAIN,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
    population: Population,
    spark_run: SparkRun,
) -> None:
    """Review who can do what: roles and policies that grant more than is used, and duties that should be separate.

    Exit code 1 if somebody has duties at once that --duties separates, in whatever context.
    """
    try:
        require_spark()
        from spark_eval.analysis import read_separations, review_report
        from spark_eval.jobs import ReviewJob, review_access
        from spark_eval.reports import render
        from spark_eval.runtime import Steps, lazy_session, read_text, write_whole

        separations = read_separations(read_text(duties), str(duties)) if duties else ()
        bundle = PolicySources(find_url(url), domain, trust).find(policies).bundle
        with lazy_session(spark_run.options) as session:
            inputs = population.inputs(PolicySet.read(bundle), session)
            found = review_access(ReviewJob(inputs, log, separations), session, Steps(None if json else err))
        if report is not None:
            page = review_report(found, f"the policies `{policies}`", command_line())
            write_whole(report, render(page).encode())
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(found)
    else:
        _show(found, report)
        warn(found.warnings)
    if not all(each.holds for each in found.conflicts):
        raise typer.Exit(Exit.DENIED)


@app.command()
@with_option_types
def audit(
    *,
    output: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder to write, or to go on with.")
    ],
    domain: Domain = DEFAULT_DOMAIN,
    url: Url = None,
    json: Json = False,
    spark_run: SparkRun,
) -> None:
    """Write the decisions of the audit stream to Parquet, each once, and follow every writer's chain.

    Run again it goes on where it ended. Exit code 1 if a chain breaks, or if pages were discarded before they were
    read.
    """
    try:
        require_spark()
        from spark_eval.jobs import AuditJob, export_audit
        from spark_eval.runtime import Steps, lazy_session
        from spark_eval.stores import look

        server = find_url(url)
        stand = run(look(server, domain))
        with lazy_session(spark_run.options) as session:
            job = AuditJob(server, domain, output, stand)
            chains = export_audit(job, session, Steps(None if json else err))
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json({"holds": chains.holds, **structs.asdict(chains)})
    else:
        _show_chains(chains)
    if not chains.holds:
        raise typer.Exit(Exit.DENIED)


@app.command()
@with_option_types
def usage(
    *,
    log: Annotated[str, typer.Option(help="The folder `decisions` that `spark audit` wrote, or a table.")],
    policies: Policies = CURRENT,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    domain: Domain = DEFAULT_DOMAIN,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
    spark_run: SparkRun,
) -> None:
    """Tell from the audit how policies are used: who asks for what, what one alone uses, which policies are idle."""
    try:
        require_spark()
        from spark_eval.analysis import usage as find_usage
        from spark_eval.analysis import usage_report
        from spark_eval.reports import render
        from spark_eval.runtime import lazy_session, write_whole
        from spark_eval.stores import open_decisions

        names = PolicySet.read(PolicySources(find_url(url), domain, trust).find(policies).bundle).names
        with lazy_session(spark_run.options) as session:
            found = find_usage(open_decisions(session(), log), names)
        if report is not None:
            page = usage_report(found, f"the decisions in `{log}`", command_line())
            write_whole(report, render(page).encode())
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(found)
    else:
        _show_usage(found, report)


@app.command()
@with_option_types
def watch(
    *,
    refused: Annotated[int, typer.Option(min=1, help="Refusals of one subject that stand out.")] = 10,
    objects: Annotated[int, typer.Option(min=1, help="Different objects asked about that stand out.")] = 100,
    undecided: Annotated[int, typer.Option(min=1, help="Questions that nobody could decide.")] = 10,
    seconds: Annotated[int, typer.Option(min=1, help="The length of a window.")] = 60,
    past: Annotated[bool, typer.Option("--past", help="Count what is in the stream already, too.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Count what is in the stream, and end.")] = False,
    domain: Domain = DEFAULT_DOMAIN,
    url: Url = None,
    json: Json = False,
    spark_run: SparkRun,
) -> None:
    """Count the audit stream while it grows, and tell at once of subjects that stand out, until Ctrl-C.

    With `--once` the exit code is 1 if anybody does.
    """
    found = 0

    def tell(anomaly: Anomaly) -> None:
        nonlocal found
        found += 1
        print_json(anomaly, line=True) if json else _say_anomaly(anomaly)

    try:
        require_spark()
        from spark_eval.jobs import Bounds, WatchJob, watch_audit
        from spark_eval.runtime import lazy_session
        from spark_eval.stores import look

        server = find_url(url)
        run(look(server, domain))
        bounds = Bounds(seconds, refused, objects, undecided)
        with lazy_session(spark_run.options) as session:
            watch_audit(WatchJob(server, domain, bounds, past, once), session(), tell)
    except AuthFabricError as error:
        fail(error)
    if found:
        raise typer.Exit(Exit.DENIED)
    if not json:
        say("nobody stands out")


def _say_anomaly(found: Anomaly) -> None:
    words = {
        "refused": f"was refused {counted(found.count, 'time')}",
        "objects": f"asked about {counted(found.count, 'object')}",
        "undecided": f"got no decision {counted(found.count, 'time')}",
    }
    say(
        f"{found.start:%Y-%m-%d %H:%M:%S}Z, {found.seconds} s: {printable(found.subject)} {words[found.kind]},"
        f" of {counted(found.decisions, 'decision')}"
    )


def _show_usage(found: Usage, report: Path | None) -> None:
    say(
        f"[bold]{counted(found.decisions, 'decision')}[/]: {found.allowed:,} allowed, {found.refused:,} refused,"
        f" {found.undecided:,} of them because nobody could decide"
    )
    for each in found.refusals[:SHOWN]:
        say(f"subject {printable(each.name)}: {each.refused:,} refused, {each.allowed:,} allowed")
    for each in found.alone[:SHOWN]:
        say(
            f"permission {printable(each.name)}: {printable(each.only)} alone uses it, {counted(each.allowed, 'time')}"
        )
    if found.idle:
        names = printable(", ".join(found.idle[:SHOWN])) + (", …" if len(found.idle) > SHOWN else "")
        count = "1 policy decides" if len(found.idle) == 1 else f"{len(found.idle):,} policies decide"
        say(f"{count} nothing: {names}")
    if report is not None:
        say(f"report: [bold]{printable(str(report))}[/]")


def _show_chains(chains: Chains) -> None:
    say(
        f"[bold]{chains.records:,}[/] records of {len(chains.writers):,} writers, up to page {chains.through:,}"
    )
    for first, last in chains.gaps:
        say(f"[red]gap[/]: pages {first:,} to {last:,} were discarded before they were read")
    dropped = sum(each.dropped for each in chains.writers.values())
    if dropped:
        say(f"[yellow]{dropped:,} decisions were not recorded by their writers[/]")
    for writer, broken in chains.broken.items():
        say(f"[red]broken[/]: record {broken.sequence:,} of {printable(writer)} {printable(broken.problem)}")
    if chains.holds:
        say("[green]every chain holds[/]")


def _show(found: Review, report: Path | None) -> None:
    say(
        f"[bold]{found.decisions:,}[/] decisions: {found.allowed:,} allow, {found.asking:,} depend on the context;"
        f" {counted(found.idle, 'subject')} can do nothing"
    )
    if found.used is not None:
        say(f"{found.used:,} of those that allow were used; {found.strangers:,} requests are about strangers")
    for each in found.conflicts:
        say(
            f"separation `{printable(each.name)}`: {'[green]holds[/]' if each.holds else '[red]does not hold[/]'}"
        )
        for number, examples, word in (
            (each.subjects, each.examples, "all of it"),
            (each.possible, each.possible_examples, "all of it in some contexts"),
        ):
            if number:
                shown = printable(", ".join(examples[:SHOWN]))
                say(f"  {counted(number, 'subject')} can have {word}: {shown}")
    for role in found.roles[:SHOWN]:
        used = "" if role.used is None else f", {role.granted - role.used:,} of them never used"
        say(
            f"role {printable(role.role)}: {counted(role.granted, 'permission')}{used};"
            f" {counted(role.holders, 'holder')}"
        )
    for subject in found.subjects[:SHOWN]:
        say(f"subject {printable(subject.name)}: {counted(subject.allowed, 'permission')}")
    if report is not None:
        say(f"report: [bold]{printable(str(report))}[/]")


def _document(job: PrecomputeJob, done: Done) -> dict[str, object]:
    manifest = done.manifest
    return {
        "domain": manifest.origin.domain,
        "epoch": manifest.origin.epoch,
        "policies": manifest.origin.bundle,
        "subjects": manifest.subjects,
        "objects": manifest.objects,
        "actions": manifest.actions,
        "decisions": manifest.decisions,
        "allowed": manifest.allows,
        "asking": manifest.asks,
        "incremental": done.incremental,
        "output": str(job.output),
        "snapshot_bytes": done.snapshot_bytes,
        "signer": str(job.signer.public),
        "warnings": done.warnings,
    }


def _say(job: PrecomputeJob, done: Done) -> None:
    manifest = done.manifest
    denied = manifest.decisions - manifest.allows - manifest.asks
    say(
        f"[bold]{manifest.decisions:,}[/] decisions: {manifest.allows:,} allow, {denied:,} deny,"
        f" {manifest.asks:,} depend on the context; "
        f"{'what had changed was computed anew' if done.incremental else 'all computed anew'}"
    )
    place = printable(str(job.output))
    say(f"snapshot of {manifest.origin}: {done.snapshot_bytes:,} bytes in {place}")
