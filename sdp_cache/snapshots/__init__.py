"""Precomputed decisions: the snapshot that caches load, written, signed and read."""

from sdp_cache.snapshots.snapshot import Origin, Ruling, Snapshot, SnapshotRefused, Tier
from sdp_cache.snapshots.store import open_snapshot, save_snapshot
from sdp_cache.snapshots.writer import Precomputation, write_snapshot

__all__ = [
    "Origin", "Precomputation", "Ruling", "Snapshot", "SnapshotRefused", "Tier", "open_snapshot",
    "save_snapshot", "write_snapshot",
]  # fmt: skip
