"""Backups: one encrypted, signed archive of a fabric's stores, keys and histories, verified and restored."""

from authfabric.backup.archive import Archive, ArchiveWriter, BackupRefused, Manifest, Opener, recipient_of
from authfabric.backup.creating import FILES, HISTORY, STREAM, Wanted, make_backup
from authfabric.backup.restoring import (
    BackupBehind,
    StoreNotEmpty,
    restore_files,
    restore_histories,
    restore_streams,
)

__all__ = [
    "FILES", "HISTORY", "STREAM", "Archive", "ArchiveWriter", "BackupBehind", "BackupRefused", "Manifest", "Opener",
    "StoreNotEmpty", "Wanted", "make_backup", "recipient_of", "restore_files", "restore_histories", "restore_streams",
]  # fmt: skip
