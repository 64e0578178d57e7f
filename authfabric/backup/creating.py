"""Making a backup: the streams of a fabric, folders of keys, and histories, into one archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from time import time

import msgspec

from authfabric.backup.archive import ArchiveWriter, BackupRefused, Manifest, ReleaseTold
from authz import Identity
from authz.release import peek_release, release_hash
from bus.nats import Connection
from bus.stores import release_entries, stream_names, take_snapshot
from bus.wire import NEWEST, RELEASES
from pubsub_core.history import INSTALL, HistoryUnavailable

STREAM = "stream/"
FILES = "files/"
HISTORY = "history/"
READ_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Wanted:
    """What goes into a backup."""

    domain: str
    folders: Sequence[Path] = ()
    """Files, and folders with all that is in them; each is restored under its own name."""
    histories: Mapping[str, str] = field(default_factory=dict)
    """Databases of events, by name."""


async def make_backup(
    archive: ArchiveWriter, wanted: Wanted, identity: Identity, connection: Connection | None
) -> Manifest:
    """Write everything, signed by a key. Raises StoreUnavailable, HistoryUnavailable or BackupRefused."""
    for folder in wanted.folders:
        _write_files(archive, folder)
    for name, url in wanted.histories.items():
        try:
            from pubsub_core.history import read_history
        except ImportError as error:
            raise HistoryUnavailable(url, INSTALL) from error
        with archive.entry(f"{HISTORY}{name}") as entry:
            for page in read_history(url):
                entry.write(msgspec.msgpack.encode(page))
    releases = {} if connection is None else await _write_streams(archive, connection)
    manifest = Manifest(time(), metadata.version("authfabric"), wanted.domain, releases, archive.entries)
    archive.close(manifest, identity)
    return manifest


async def _write_streams(archive: ArchiveWriter, connection: Connection) -> dict[str, ReleaseTold]:
    """All streams, in an order in which what is pushed meanwhile leaves no gap.

    The second record of the newest release must not be ahead of the releases, nor these of their content.
    """
    first, last = (f"KV_{bucket}" for bucket in (NEWEST, RELEASES))
    releases: dict[str, ReleaseTold] = {}
    for name in sorted(await stream_names(connection), key=lambda each: (each != first, each != last)):
        snapshot = await take_snapshot(connection, name)
        with archive.entry(f"{STREAM}{name}", msgspec.json.encode(snapshot.head)) as entry:
            async for chunk in snapshot.chunks:
                entry.write(chunk)
        if name == last:
            releases = await _releases(connection, snapshot.head.last)
    return releases


async def _releases(connection: Connection, until: int) -> dict[str, ReleaseTold]:
    """The newest release of each domain up to a revision, as it stands in the store."""
    found: dict[str, ReleaseTold] = {}
    for each in await release_entries(connection):
        release = peek_release(each.data)
        if release is not None and each.revision <= until:
            found[release.domain] = ReleaseTold(release.sequence, release_hash(each.data))
    return found


def _write_files(archive: ArchiveWriter, given: Path) -> None:
    if not given.exists():
        raise BackupRefused(given, "is not there, so it cannot be backed up")
    root = given.resolve()
    found = sorted(each for each in root.rglob("*") if each.is_file()) if root.is_dir() else [root]
    for path in found:
        name = path.relative_to(root.parent).as_posix()
        try:
            with path.open("rb") as file, archive.entry(f"{FILES}{name}") as entry:
                while data := file.read(READ_BYTES):
                    entry.write(data)
        except OSError as error:
            raise BackupRefused(path, f"cannot be read: {error.strerror}") from None
