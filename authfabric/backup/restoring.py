"""Restoring from a backup: files below a folder, streams into an empty store, histories into empty databases.

Invariant: nothing that is there is overwritten, and no release goes back unnoticed. What members hold is looked at
first: if that is newer than the backup, it is written into the store's second record before the older releases are
there, so that nobody goes by those until `policy restore` has put back what is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from authfabric.backup.archive import Archive, BackupRefused
from authfabric.backup.creating import FILES, HISTORY, STREAM
from authz import AuthFabricError, PublicKey
from bus.errors import StoreUnavailable
from bus.feeds import Offer, ask_held
from bus.identity import write_private
from bus.nats import Connection
from bus.stores import ReleaseStore, StreamHead, delete_empty, put_snapshot, stream_head
from bus.wire import NEWEST, RELEASES
from pubsub_core.history import INSTALL, HistoryUnavailable

if TYPE_CHECKING:
    from pubsub_core.history import HistoryPage

ATTEMPTS = 3
"""How often a stream is put whose place somebody makes anew meanwhile."""


class BackupBehind(AuthFabricError):
    """Members hold a release that is newer than the backup: restoring it would go back."""

    def __init__(self, domain: str, held: Offer, epoch: int) -> None:
        has = f"release {epoch}" if epoch else "no release"
        super().__init__(
            f"{', '.join(held.members)} hold {held.released} of `{domain}`, and the backup has {has}: restore it with"
            " `--behind`, then put back what is missing with `authfabric policy restore`"
        )
        self.held = held


class StoreNotEmpty(AuthFabricError):
    """The store has what a restore would overwrite."""

    def __init__(self, stream: str, messages: int) -> None:
        super().__init__(
            f"the store has `{stream}` with {messages} messages, which are not overwritten: restore into servers"
            " without stores, before their access control services run"
        )
        self.stream = stream


def restore_files(archive: Archive, folder: Path) -> int:
    """Write all files below a new folder, for their owner alone; returns how many. Raises BackupRefused."""
    if folder.exists() and any(folder.iterdir()):
        raise BackupRefused(folder, "is not empty: name a new folder, nothing is overwritten")
    names = [name.removeprefix(FILES) for name in archive.manifest.entries if name.startswith(FILES)]
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BackupRefused(archive.path, f"has the file `{name}`, which lies elsewhere")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(target, b"")
        with target.open("ab") as file:
            for part in archive.parts(f"{FILES}{name}"):
                file.write(part)
    return len(names)


def restore_histories(archive: Archive, targets: Mapping[str, str]) -> int:
    """Write histories, by name, into empty databases; returns how many rows. Raises HistoryUnavailable."""
    rows = 0
    for name, url in targets.items():
        entry = f"{HISTORY}{name}"
        if entry not in archive.manifest.entries:
            raise BackupRefused(archive.path, f"has no history `{name}`: `backup verify` shows what it has")
        try:
            from pubsub_core.history import write_history
        except ImportError as error:
            raise HistoryUnavailable(url, INSTALL) from error
        rows += write_history(url, _pages(archive, entry))
    return rows


def _pages(archive: Archive, entry: str) -> Iterator[HistoryPage]:
    """The pages of a history; one that is longer than a frame stands in several."""
    from pubsub_core.history import HistoryPage

    rest = b""
    for part in archive.parts(entry):
        rest += part
        try:
            page = msgspec.msgpack.decode(rest, type=HistoryPage)
        except (msgspec.ValidationError, UnicodeDecodeError) as error:
            raise BackupRefused(archive.path, f"has a history that cannot be read: {error}") from None
        except msgspec.DecodeError:  # it goes on in the next frame
            continue
        rest = b""
        yield page


async def restore_streams(
    archive: Archive, connection: Connection, trusted: Collection[PublicKey], *, behind: bool = False
) -> dict[str, int]:
    """Put all streams into an empty store; returns how many messages each has.

    Raises StoreNotEmpty, StoreUnavailable, and BackupBehind unless that is meant.
    """
    heads = {
        name.removeprefix(STREAM): msgspec.json.decode(entry.about, type=StreamHead)
        for name, entry in archive.manifest.entries.items()
        if name.startswith(STREAM)
    }
    for name in heads:
        found = await stream_head(connection, name)
        if found is not None and found.messages:
            raise StoreNotEmpty(name, found.messages)
    newer = await _newer(archive, connection, trusted)
    if newer and not behind:
        domain, offer = next(iter(newer.items()))
        told = archive.manifest.releases.get(domain)
        raise BackupBehind(domain, offer, told.epoch if told is not None else 0)
    # The releases last: whoever reads them finds what they name, and what is known to have come after them.
    last = f"KV_{RELEASES}"
    for name in sorted(heads, key=lambda each: each == last):
        await _put(archive, connection, name, heads[name])
        if name == f"KV_{NEWEST}":
            for domain, offer in newer.items():
                await ReleaseStore(connection).mark(domain, offer.data)
    return {name: head.messages for name, head in heads.items()}


async def _newer(
    archive: Archive, connection: Connection, trusted: Collection[PublicKey]
) -> dict[str, Offer]:
    """What members hold that is not what the backup has, nor older."""
    found: dict[str, Offer] = {}
    for domain, told in archive.manifest.releases.items():
        for offer in await ask_held(connection, domain, trusted):
            if offer.released.epoch >= told.epoch and offer.released.hash != told.hash:
                found[domain] = offer
                break
    return found


async def _put(archive: Archive, connection: Connection, name: str, head: StreamHead) -> None:
    for attempt in itertools.count(1):
        await delete_empty(connection, name)
        try:
            await put_snapshot(connection, name, head, _chunks(archive, f"{STREAM}{name}"))
            return
        except StoreUnavailable:
            found = await stream_head(connection, name)
            if found is not None and found.messages:
                raise StoreNotEmpty(name, found.messages) from None
            if attempt >= ATTEMPTS:
                raise


async def _chunks(archive: Archive, entry: str) -> AsyncIterator[bytes]:
    for part in archive.parts(entry):
        yield part
