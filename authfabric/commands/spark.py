"""`authfabric spark`: decisions about everyone and everything at once, by jobs on Spark.

Spark is imported when a command runs, and only inside `spark_eval`: without the extra, help and every other command
work.
"""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from authfabric.commands.release import Domain, Key
from authfabric.keys import Trust, own_identity
from authfabric.policies import CURRENT, Shelf
from authfabric.populations import LOCAL, Actions, Master, MayLack, Objects, Subjects, Verbose, make_inputs
from authfabric.settings import find_url
from authfabric.terminal import Exit, Json, Url, err, fail, out, print_json
from authz import AuthFabricError
from bus.scopes import DEFAULT_DOMAIN
from pdp.policy_set import PolicySet
from spark_eval.errors import require_spark

if TYPE_CHECKING:
    from spark_eval.jobs.precompute import Done, Order

DAY = 86_400.0

app = typer.Typer(help="Decide about everyone and everything at once.", no_args_is_help=True)


@app.callback()
def spark() -> None:
    """Decide about everyone and everything at once."""


@app.command()
def precompute(
    output: Annotated[Path, typer.Option("--out", help="The folder to write, or to bring up to date.")],
    policies: Annotated[
        str, typer.Option(help="A folder, a bundle, the number of a release, or `current`.")
    ] = CURRENT,
    epoch: Annotated[
        int | None, typer.Option(help="With a folder or a bundle: under which epoch it is in force.")
    ] = None,
    subjects: Subjects = None,
    objects: Objects = None,
    actions: Actions = None,
    may_lack: MayLack = None,
    full: Annotated[bool, typer.Option("--full", help="Compute everything anew.")] = False,
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
    master: Master = LOCAL,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Compute every decision in advance: as Parquet for analysis, and as the signed snapshot that caches load.

    Run again after policies or entities have changed, it computes only what has. Services load the snapshot with
    Enforcer.connect(snapshot=OUT/decisions.snapshot).
    """
    try:
        require_spark()
        identity = own_identity(key)
        found = Shelf(find_url(url), domain, [*(trust or ()), str(identity.public)]).find(policies)
        if found.epoch is None and epoch is None:
            fail(
                "`--epoch` is missing: caches use a snapshot only under the epoch it is made for", Exit.USAGE
            )
        from spark_eval.jobs.precompute import Order
        from spark_eval.jobs.precompute import precompute as compute
        from spark_eval.progress import Steps
        from spark_eval.session import SparkOptions, lazy_session

        with lazy_session(SparkOptions(master, verbose)) as session:
            read = PolicySet.read(found.bundle)
            order = Order(
                make_inputs(read, subjects, objects, actions, may_lack, session),
                found.bundle.hash,
                found.epoch or epoch or 0,
                identity,
                output,
                full,
                time() + lifetime,
                assume_provided,
            )
            done = compute(order, session, Steps(None if json else err))
    except AuthFabricError as error:
        fail(error)
    if json:
        print_json(_document(order, done))
    else:
        _say(order, done)


def _document(order: Order, done: Done) -> dict[str, object]:
    manifest = done.manifest
    return {
        "epoch": manifest.epoch,
        "policies": manifest.policies,
        "subjects": manifest.subjects,
        "objects": manifest.objects,
        "actions": manifest.actions,
        "decisions": manifest.decisions,
        "allowed": manifest.allows,
        "asking": manifest.asks,
        "incremental": done.incremental,
        "output": str(order.output),
        "snapshot_bytes": done.snapshot_bytes,
        "signer": str(order.signer.public),
    }


def _say(order: Order, done: Done) -> None:
    manifest = done.manifest
    denied = manifest.decisions - manifest.allows - manifest.asks
    out.print(
        f"[bold]{manifest.decisions:,}[/] decisions: {manifest.allows:,} allow, {denied:,} deny,"
        f" {manifest.asks:,} depend on the context; "
        f"{'what had changed was computed anew' if done.incremental else 'all computed anew'}",
        highlight=False,
        soft_wrap=True,
    )
    out.print(
        f"snapshot of epoch {manifest.epoch}: {done.snapshot_bytes:,} bytes in {escape(str(order.output))}",
        highlight=False,
        soft_wrap=True,
    )
