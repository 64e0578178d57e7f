"""`authfabric domain rotate`: another key in the place of the access control service's, or of the domain's own."""

from __future__ import annotations

from time import time
from typing import Annotated

import typer

from authfabric.commands.trust.domain_servers import Folder, errors
from authfabric.deployment import OPERATOR_FILE, NodeFolders
from authfabric.processes import RevocationPending, tell
from authfabric.terminal import Exit, Json, fail, passphrase, print_json, printable, run, say
from authz.spki import Notice
from pdp.access import Domain, DomainFolder, begin_rotation, finish_rotation, revoke_before


def rotate(
    folder: Folder,
    own: Annotated[
        bool, typer.Option("--own", help="Exchange the domain's own key instead, in which everybody trusts.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Let the key of before count no more, and all that rests on it.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="With --finish: also where somebody was not granted anew, or a network not told."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Exchange the key of the domain's access control service: at first both count, after `--finish` the new one alone.

    What is to be done in between is in docs/rotation.md. This needs the domain's own key.
    """
    if finish and own:
        fail("`--finish` ends what was begun: say it without `--own`", Exit.USAGE)
    with errors():
        opened = DomainFolder.open(folder)
        _finish(opened, force, json) if finish else _begin(opened, own, json)


def _begin(opened: DomainFolder, own: bool, json: bool) -> None:
    changed, domain = begin_rotation(opened, "domain" if own else "service", passphrase.known, time())
    _write_nodes(changed, domain, anew=not own)
    if json:
        print_json({"exchanged": changed.file.exchanged, "before": changed.file.before, "key": _key(changed)})
        return
    say(f"[green]begun[/]: {_key(changed)} counts, beside {changed.file.before}")
    say(
        "copy its files to the servers, restart them and the access control service; then grant members anew:"
    )
    _say_behind(_behind(changed))
    say(f"then:   authfabric domain rotate {changed.path} --finish")


def _finish(opened: DomainFolder, force: bool, json: bool) -> None:
    behind, which, before = _behind(opened), opened.file.exchanged, opened.file.before
    if behind and not force:
        names = ", ".join(map(printable, behind))
        fail(f"not granted anew since: {names}; do that first, or shut them out with `--force`")
    domain = opened.domain(passphrase.known)
    notice = revoke_before(opened, domain, time())
    pending = None if notice is None else run(_told(opened, domain, notice))
    if pending is not None and not force:
        fail(f"{pending}; or finish with `--force`, and they heed it when they serve these files")
    changed, newer = finish_rotation(opened, domain, time())
    if which == "domain":
        _write_nodes(changed, newer, anew=True)
    elif (folders := NodeFolders.of(changed)) is not None:
        folders.refresh()
    kept = changed.file.owner if which == "domain" else changed.file.service
    if json:
        print_json({"finished": which, "before": before, "key": kept})
    else:
        say(f"[green]finished[/]: {before} counts no more; copy the files to the servers, and restart them")


async def _told(opened: DomainFolder, domain: Domain, notice: Notice) -> RevocationPending | None:
    """Have all networks heed a revocation; the one that could not be told, if there is one."""
    try:
        await tell(opened, domain.issuer, opened.file.url, notice)
    except RevocationPending as pending:
        return pending
    return None


def _write_nodes(opened: DomainFolder, domain: Domain, *, anew: bool) -> None:
    """Give the nodes what they need; `anew` with other credentials for their replicas."""
    if (folders := NodeFolders.of(opened)) is not None:
        (opened.path / OPERATOR_FILE).unlink(missing_ok=True)  # it is to trust in the new key, too
        folders.write(domain, anew=anew)


def _behind(opened: DomainFolder) -> list[str]:
    """Whoever is to be granted anew by hand: nodes' replicas are given their credentials with the other files."""
    folders = NodeFolders.of(opened)
    replicas = set() if folders is None else folders.replicas
    return [each for each in opened.behind if each not in replicas]


def _say_behind(names: list[str]) -> None:
    for name in names:
        say(f"  {printable(name)}")
    if not names:
        say("  (none)")


def _key(opened: DomainFolder) -> str:
    file = opened.file
    return file.owner if file.exchanged == "domain" else file.service
