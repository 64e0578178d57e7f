"""The secondary decision point: answers recycled safely, exactly or by inference."""

from sdp_cache.lease import LeaseRules, Step
from sdp_cache.point import SecondaryPoint
from sdp_cache.recycler import Recycler, Recycling
from sdp_cache.snapshot import Snapshot, SnapshotRefused

__all__ = [
    "LeaseRules",
    "Recycler",
    "Recycling",
    "SecondaryPoint",
    "Snapshot",
    "SnapshotRefused",
    "Step",
]
