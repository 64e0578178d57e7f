"""`authfabric policy push`, `list`, `rollback`: bring policies into force, and see what was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.files import CONNECT_SECONDS, Trust, find_url, own_identity, trusted_keys
from authfabric.releases import SHOWN, Rollout, watching
from authfabric.terminal import Exit, Json, Url, err, fail, out, print_json, printable, run, say_table
from authz import AuthFabricError, Identity, PublicKey
from authz.errors import InvalidKey
from authz.release import Released
from bus.feeds import Entry, Feed
from bus.nats import connect
from bus.wire import DEFAULT_DOMAIN
from pdp.lint import read_tested
from pdp.releases import Published, Publisher

Domain = Annotated[str, typer.Option(help="The domain whose policies these are.")]
Key = Annotated[
    Path | None, typer.Option(help="The private key to sign with. Default: your own, made at first use.")
]
Message = Annotated[str, typer.Option("--message", "-m", help="Why: shown in the history.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until everyone who applies policies has this.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for them; leases of 15 s end within.")]

Force = Annotated[
    str | None,
    typer.Option(
        "--force",
        metavar="REASON",
        help="Release policies that allow everything to everyone, or no policy at all, and record why.",
    ),
]

Work = Callable[[Publisher], Awaitable[Published]]


def push(
    policies: Annotated[Path, typer.Argument(help="A folder of policies, or a bundle that `build` made.")],
    message: Message = "",
    wait: Wait = False,
    timeout: Timeout = 30.0,
    override: Annotated[
        bool, typer.Option("--override", help="Push even if the newest release cannot be verified.")
    ] = False,
    force: Force = None,
    domain: Domain = DEFAULT_DOMAIN,
    key: Key = None,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Bring policies into force everywhere.

    They are checked, packed, signed and stored; every replica verifies them, compiles them and changes over at once.
    Refused are errors that `policy check` reports, and a folder in which a case of `policy test` fails.
    Exit code 0: released, and with --wait in force: everyone has applied it, or can decide no more by an older one. 1:
    released, and not in force everywhere yet. 3: not released.
    """
    where = find_url(url)
    identity, trusted = release_keys(key, trust, where)
    reason = reason_of(force)
    try:
        bundle = read_tested(policies, trusted)
    except AuthFabricError as error:
        fail(error)
    publisher = (where, domain, identity, trusted)
    work: Work = lambda to: to.push(bundle, message, override, reason)  # noqa: E731
    run(_release(publisher, work, timeout if wait else None, json))


def rollback(
    epoch: Annotated[int, typer.Argument(help="The release to go back to, as `policy list` shows it.")],
    message: Message = "",
    wait: Wait = False,
    timeout: Timeout = 30.0,
    force: Force = None,
    domain: Domain = DEFAULT_DOMAIN,
    key: Key = None,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Bring the policies of an earlier release into force again, as a new release."""
    where = find_url(url)
    identity, trusted = release_keys(key, trust, where)
    publisher, reason = (where, domain, identity, trusted), reason_of(force)
    work: Work = lambda to: to.rollback(epoch, message, reason)  # noqa: E731
    run(_release(publisher, work, timeout if wait else None, json))


def list_(
    domain: Domain = DEFAULT_DOMAIN,
    trust: Trust = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the releases of a domain, newest first; a star marks what is in force."""
    where = find_url(url)
    try:
        trusted = trusted_keys(trust, where)
    except AuthFabricError as error:
        fail(error, Exit.USAGE)
    history = run(_history(where, domain, trusted))
    in_force = next((each for each in reversed(history) if each.released is not None), None)
    if json:
        print_json([{**_document(each), "in_force": each is in_force} for each in reversed(history)])
    elif not history:
        out.print(f"`{domain}` has no release yet: make one with `authfabric policy push DIR`")
    else:
        rows = [_row(each, each is in_force) for each in reversed(history)]
        say_table(("release", "hash", "when", "bundle", "signed by", "message"), rows)


_Publisher = tuple[str, str, Identity, frozenset[PublicKey]]


async def _release(publisher: _Publisher, work: Work, timeout: float | None, json: bool) -> None:
    url, domain, identity, trusted = publisher
    async with (
        connect(url, name="policy", connect_seconds=CONNECT_SECONDS) as bus,
        watching(bus, Feed(bus, domain, trusted)) as watch,
    ):
        say = partial(err.print, highlight=False)
        published = await work(Publisher(bus, domain, identity, trusted, time, say))
        if not json:
            _say(published)
        released = published.released
        rollout = await watch.wait(released, timeout, quiet=json) if timeout is not None else None
    if json:
        print_json(_release_document(published, rollout))
    elif rollout is not None:
        say_rollout(rollout, domain, released)
    if rollout is not None and not rollout.complete:
        raise typer.Exit(Exit.DENIED)


async def _history(url: str, domain: str, trusted: frozenset[PublicKey]) -> list[Entry]:
    async with connect(url, name="policy", connect_seconds=CONNECT_SECONDS) as bus:
        return await Feed(bus, domain, trusted).history()


def release_keys(
    key: Path | None, trust: list[str] | None, url: str
) -> tuple[Identity, frozenset[PublicKey]]:
    """The key to sign with, and those whose releases count, by a command's options.

    A key that does not count is said to: members that do not trust it refuse what it signs.
    """
    try:
        identity = own_identity(key)
        trusted = trusted_keys(trust, url)
    except InvalidKey as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)
    if identity.public not in trusted:
        keys = ", ".join(f"`{each}`" for each in sorted(map(str, trusted)))
        err.print(
            f"[yellow]your key is not among those trusted here[/]: `{identity.public}` signs, and {keys} count;"
            " members that trust only those refuse the release. Sign with one of them (`--key`), or have this one"
            " trusted (`--trust` where members are started, `authfabric domain trust`)",
            highlight=False,
            soft_wrap=True,
        )
    return identity, trusted | {identity.public}


def reason_of(force: str | None) -> str:
    """Why policies are forced; nothing if they are not."""
    if force is not None and not force.strip():
        raise typer.BadParameter("say why: the reason is recorded with the release", param_hint="--force")
    return force or ""


def _say(published: Published) -> None:
    released = published.released
    if published.new:
        out.print(
            f"[green]released[/] as [bold]{released.epoch}[/]: {published.difference}"
            f" [dim](hash {released.hash[:12]}, bundle {released.release.bundle[:12]})[/]",
            highlight=False,
        )
    else:
        out.print(f"in force already, as release [bold]{released.epoch}[/]", highlight=False)


def say_rollout(rollout: Rollout, domain: str, released: Released) -> None:
    """Say who has a release, and who has not."""
    for name in rollout.lapsed:
        out.print(
            f"[yellow]silent[/]: {printable(name)}; its lease has ended, so it decides nothing",
            highlight=False,
        )
    if rollout.complete:
        out.print(f"[green]complete[/]: applied by {_names(rollout.applied)}", highlight=False)
    elif not rollout.applied and not rollout.stragglers:
        out.print(f"[red]not complete[/]: nobody who applies policies of `{domain}` was heard")
    elif not rollout.stragglers:
        out.print(
            f"[red]not complete[/]: applied by {_names(rollout.applied)}, but no replica has said yet whom else it"
            " has heard: wait for longer",
            highlight=False,
        )
    else:
        out.print(f"[red]not complete[/]: {released} is not applied by", highlight=False)
        for name, why in rollout.stragglers.items():
            out.print(f"  [bold]{printable(name)}[/]: {printable(why)}", highlight=False)
        if rollout.bound is None:
            out.print("someone of them has no lease, and may go on by an older release for good")
        else:
            out.print(f"their leases end within {rollout.bound:.0f} s: from then on no older release counts")


def _names(names: Sequence[str]) -> str:
    more, shown = len(names) - SHOWN, ", ".join(map(printable, names[:SHOWN]))
    return shown if more <= 0 else f"{shown} and {more} more"


def _release_document(published: Published, rollout: Rollout | None) -> dict[str, object]:
    difference = published.difference
    return {
        "epoch": published.released.epoch,
        "hash": published.released.hash,
        "signer": str(published.released.signer),
        "bundle": published.released.release.bundle,
        "new": published.new,
        "added": difference.added,
        "altered": difference.altered,
        "removed": difference.removed,
        "rollout": rollout,
    }


def _document(entry: Entry) -> dict[str, object]:
    if entry.released is None:
        return {"epoch": None, "revision": entry.revision, "verified": False, "problem": entry.problem}
    release = entry.released.release
    return {
        "epoch": entry.epoch,
        "revision": entry.revision,
        "verified": True,
        "hash": entry.released.hash,
        "at": release.at,
        "name": release.name,
        "message": release.message,
        "forced": release.forced,
        "bundle": release.bundle,
        "signer": str(entry.released.signer),
    }


def _row(entry: Entry, in_force: bool) -> tuple[str, ...]:
    if entry.released is None:
        return "?", "", "", "", "[red]not verified[/]", f"[red]{printable(entry.problem)}[/]"
    release = entry.released.release
    when = datetime.fromtimestamp(release.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    signer = str(entry.released.signer)
    said = printable(release.message)
    if release.forced:
        said = f"{said} [yellow]forced: {printable(release.forced)}[/]".lstrip()
    number = f"[bold green]{entry.epoch}*[/]" if in_force else str(entry.epoch)
    return number, entry.released.hash[:12], when, release.bundle[:12], signer[:8], said
