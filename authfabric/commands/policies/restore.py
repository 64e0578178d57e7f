"""`authfabric policy restore`: give a store back the releases that it has lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.commands.policies.push import Domain, Key, Timeout, Wait, release_keys, say_rollout
from authfabric.files import CONNECT_SECONDS, Trust, find_url
from authfabric.releases import watching
from authfabric.terminal import Exit, Json, Url, out, print_json, run
from bus.feeds import Feed, Survey
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.releases import Plan, Restorer, Side, plan


def restore(
    file: Annotated[
        Path | None,
        typer.Argument(help="What a replica keeps on its disk (`pdp serve --cache`), if none of them runs."),
    ] = None,
    join: Annotated[
        Side | None,
        typer.Option(
            help="Where the store has other releases than are held: whose policies count from now on."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    domain: Domain = DEFAULT_DOMAIN,
    key: Key = None,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Give the store back the releases that it has lost: after a backup was restored, or its disk failed.

    Replicas hold the release that they go by; each is verified by its signature. What was lost is put back as it was
    signed. Nothing is overwritten: where the store has another release under the same number, --join makes a new one
    after both, with the policies of the one side or the other. Whatever is there already stays as it is.
    """
    identity, trusted = release_keys(key, trust, find_url(url))

    async def work() -> None:
        async with (
            connect(find_url(url), name="policy", connect_seconds=CONNECT_SECONDS) as bus,
            watching(bus, Feed(bus, domain, trusted)) as watch,
        ):
            restorer = Restorer(bus, domain, identity, trusted, time)
            found = await restorer.survey(file)
            planned = plan(found, join)
            if not json:
                for line in _words(found, planned, domain):
                    out.print(line, highlight=False, soft_wrap=True)
            newest = found.newest if dry_run else await restorer.restore(found, planned)
            waits = wait and not dry_run and newest is not None
            rollout = await watch.wait(newest, timeout, quiet=json) if waits and newest is not None else None
        if json:
            print_json(
                {
                    "held": {each.released.hash: each.members for each in found.offers},
                    "put_back": None if planned.put_back is None else planned.put_back.released.epoch,
                    "joined": list(planned.joined),
                    "epoch": newest.epoch if newest is not None else None,
                    "hash": newest.hash if newest is not None else None,
                    "done": not dry_run,
                    "rollout": rollout,
                }
            )
        elif rollout is not None and newest is not None:
            say_rollout(rollout, domain, newest)
        if rollout is not None and not rollout.complete:
            raise typer.Exit(Exit.DENIED)

    run(work())


def _words(found: Survey, planned: Plan, domain: str) -> Iterator[str]:
    """What is there, and what is done about it."""
    has = f"has {found.newest}" if found.newest is not None else "has no release"
    yield f"the store {has} of `{domain}`"
    for each in found.offers:
        yield f"{each.released}: held by {', '.join(each.members)}"
    if planned == Plan():
        yield "nothing is lost" if found.newest is not None else "there is nothing to restore"
    if planned.put_back is not None:
        yield f"put back: {planned.put_back.released}, as it was signed"
    if planned.join is not None:
        yield f"released as {planned.epoch + 1}, after all of them: the policies of {planned.join}"
