"""Snapshots in files: written whole or not at all, and read at once."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from tempfile import NamedTemporaryFile

from authz import PublicKey
from sdp_cache.snapshots.snapshot import Origin, Snapshot, SnapshotRefused


def open_snapshot(path: Path | str, trusted: Collection[PublicKey], origin: Origin) -> Snapshot:
    """Read and verify a snapshot. Raises SnapshotRefused if it must not be used, or cannot be read.

    It is read rather than mapped: a mapped file could be altered after it was verified.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SnapshotRefused(f"`{path}` cannot be read ({error.strerror})") from error
    return Snapshot.open(data, trusted, origin)


def save_snapshot(path: Path, data: bytes) -> None:
    """Put a snapshot in place at once: whoever opens the path sees all of it, or what was there before."""
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)
