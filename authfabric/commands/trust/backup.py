"""`authfabric backup`: one encrypted archive of stores, keys and histories, made, verified and restored."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Annotated

import typer

from authfabric.backup import (
    HISTORY,
    STREAM,
    Archive,
    ArchiveWriter,
    Manifest,
    Opener,
    Wanted,
    make_backup,
    recipient_of,
    restore_files,
    restore_histories,
    restore_streams,
)
from authfabric.files import CONNECT_SECONDS, find_url, history_url, own_identity, trusted_keys
from authfabric.terminal import Exit, Json, Url, counted, fail, passphrase, print_json, run, say, say_table
from authz import AuthFabricError, Identity, PublicKey
from authz.errors import InvalidKey
from bus.identity import Credentials, create_key, load_key
from bus.nats import Connection, connect
from bus.server import ServiceKeys
from pdp.access import DomainFolder, Issuer
from pep.trust import read_keys

app = typer.Typer(
    help="Back up a fabric's stores, keys and histories; verify and restore it.", no_args_is_help=True
)

File = Annotated[Path, typer.Argument(help="The archive.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="The domain's folder: its service's key reaches the stores of its servers.",
    ),
]
Histories = Annotated[
    list[str] | None,
    typer.Option(
        "--history",
        metavar="NAME=URL",
        help="The events that a broker has kept: sqlite:///FILE or postgresql://HOST/NAME. Repeatable.",
    ),
]
Signers = Annotated[
    list[str] | None,
    typer.Option("--signer", metavar="KEY|FILE", help="Who must have signed it. Repeatable."),
]
OpeningKey = Annotated[
    Path | None,
    typer.Option("--key", help="The key that opens it, if it was encrypted to one. Default: a passphrase."),
]


@app.command()
def create(
    file: File,
    folder: Folder = None,
    include: Annotated[
        list[Path] | None, typer.Option(help="A file or folder to keep too, such as keys. Repeatable.")
    ] = None,
    histories: Histories = None,
    stores: Annotated[bool, typer.Option(help="Whether to keep what the NATS servers store.")] = True,
    recipients: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="RECIPIENT", help="Who can open it, as `backup key` prints it. Repeatable."
        ),
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Back up a running fabric into one encrypted file, signed by the domain's service, or else by your own key.

    Without --to it is encrypted under a passphrase: $AUTHFABRIC_PASSPHRASE, or the one that you type.
    """
    try:
        opened = DomainFolder.open(folder) if folder is not None else None
        signer = own_identity() if opened is None else opened.issuer(passphrase.known).service
        secret = "" if recipients else passphrase.chosen()
        kept = [*([folder] if folder is not None else []), *(include or [])]
        wanted = Wanted("" if opened is None else opened.file.name, kept, _databases(histories))

        async def work() -> Manifest:
            with ArchiveWriter(file, secret, recipients or ()) as archive:
                if not stores:
                    return await make_backup(archive, wanted, signer, None)
                async with _store(opened, signer, url) as connection:
                    return await make_backup(archive, wanted, signer, connection)

        manifest = run(work())
    except AuthFabricError as error:
        fail(error)
    _say_manifest(manifest, signer.public, json)


@app.command()
def verify(file: File, key: OpeningKey = None, signers: Signers = None, json: Json = False) -> None:
    """Read all of a backup, and say what it holds. Nothing is restored.

    Exit code 3: it is damaged, or signed by somebody else than it should be.
    """
    archive = _verified(file, key, signers)
    _say_manifest(archive.manifest, archive.signer, json)


@app.command()
def restore(
    file: File,
    files: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Restore keys and other files below this new folder.")
    ] = None,
    stores: Annotated[
        bool,
        typer.Option("--stores", help="Restore what the NATS servers stored, into servers without stores."),
    ] = False,
    histories: Histories = None,
    behind: Annotated[
        bool,
        typer.Option(
            "--behind", help="Also if members hold a newer release: `policy restore` puts that back then."
        ),
    ] = False,
    folder: Folder = None,
    key: OpeningKey = None,
    signers: Signers = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Restore from a backup what is named: files, stores, histories. All of it is verified first.

    Nothing that is there is overwritten. If members hold a release that is newer than the backup, stores are not
    restored unless --behind says so, and then nobody decides by the older one.
    """
    if files is None and not stores and not histories:
        fail("say what to restore: `--files DIR`, `--stores`, `--history NAME=URL`", Exit.USAGE)
    archive = _verified(file, key, signers)
    written, rows, streams = 0, 0, dict[str, int]()
    try:
        if files is not None:
            written = restore_files(archive, files)
        if histories:
            rows = restore_histories(archive, _databases(histories))
        if stores:
            opened = DomainFolder.open(folder) if folder is not None else None
            signer = own_identity() if opened is None else opened.issuer(passphrase.known).service
            trusted = trusted_keys(None, url) if opened is None else _trusted(opened)

            async def work() -> dict[str, int]:
                async with _store(opened, signer, url) as connection:
                    return await restore_streams(archive, connection, trusted, behind=behind)

            streams = run(work())
    except AuthFabricError as error:
        fail(error)
    if json:
        told = {"files": written, "rows": rows, "streams": streams, "releases": archive.manifest.releases}
        print_json(told)
        return
    if files is not None:
        say(f"[green]restored[/] {counted(written, 'file')} below {files}")
    if histories:
        say(f"[green]restored[/] {counted(rows, 'row')} of histories")
    if stores:
        say(f"[green]restored[/] the stores, as of {_time(archive.manifest.at)}")
        for domain, newest in archive.manifest.releases.items():
            say(f"`{domain}` has release {newest.epoch} ({newest.hash[:12]})")
        say("see `authfabric status` for who holds another, and `authfabric policy restore --dry-run`")
    if files is not None or stores:
        say(
            f"[yellow]what was revoked after {_time(archive.manifest.at)} is not in it[/]: unless the domain's folder"
            " is a later one, say `authfabric domain revoke` again before anybody connects"
        )


@app.command("key")
def key_(
    output: Annotated[Path, typer.Option("--out", help="The file to write the key to.")],
    unencrypted: Annotated[
        bool, typer.Option("--unencrypted", help="Leave the key without a passphrase.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a key that opens backups, and print to whom they are encrypted (`backup create --to`). Keep it elsewhere."""
    identity = Identity.generate()
    try:
        create_key(output, identity, None if unencrypted else passphrase.chosen())
    except AuthFabricError as error:
        fail(error)
    print_json({"recipient": recipient_of(identity)}) if json else say(recipient_of(identity))


def _verified(file: Path, key: Path | None, signers: list[str] | None) -> Archive:
    try:
        opener = Opener(passphrase.known, None if key is None else load_key(key, passphrase.known))
        return Archive.verify(file, opener, read_keys(signers or []))
    except InvalidKey as error:
        fail(error, Exit.USAGE)
    except AuthFabricError as error:
        fail(error)


@contextlib.asynccontextmanager
async def _store(
    opened: DomainFolder | None, service: Identity, url: str | None
) -> AsyncIterator[Connection]:
    """A connection that may read and make streams: that of a domain's service, whether or not one runs."""
    if opened is None:
        async with connect(find_url(url), name="backup", connect_seconds=CONNECT_SECONDS) as connection:
            yield connection
        return
    tls = opened.tls(Issuer(opened.file.name, service), time())
    credentials = Credentials(ServiceKeys.of(service).member, tls=tls)
    async with Connection(
        url or opened.file.url, name="backup", credentials=credentials, connect_seconds=CONNECT_SECONDS
    ) as connection:
        yield connection


def _trusted(opened: DomainFolder) -> frozenset[PublicKey]:
    return read_keys((opened.file.owner, *opened.file.trust))


def _databases(given: list[str] | None) -> dict[str, str]:
    """Databases by name, as `--history` names them."""
    found: dict[str, str] = {}
    for text in given or []:
        name, equals, url = text.partition("=")
        if not equals or not name or not url:
            fail(f"`--history {text}` must be NAME=URL, such as shop=sqlite:////var/lib/shop.db", Exit.USAGE)
        found[name] = history_url(url)
    return found


def _say_manifest(manifest: Manifest, signer: PublicKey, json: bool) -> None:
    if json:
        print_json(
            {
                "at": manifest.at,
                "version": manifest.version,
                "domain": manifest.domain,
                "signer": str(signer),
                "releases": manifest.releases,
                "entries": {
                    name: {"bytes": entry.size, "sha256": entry.sha256}
                    for name, entry in manifest.entries.items()
                },
            }
        )
        return
    say(f"a backup of {_time(manifest.at)}, by authfabric {manifest.version}, signed by {signer}")
    for domain, told in manifest.releases.items():
        say(f"`{domain}` has release {told.epoch} ({told.hash})")
    shown = {name: entry for name, entry in manifest.entries.items() if name.startswith((STREAM, HISTORY))}
    files = len(manifest.entries) - len(shown)
    say_table(("entry", "bytes"), [(name, f"{entry.size:,}") for name, entry in shown.items()])
    say(counted(files, "file"))


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
