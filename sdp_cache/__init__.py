"""The secondary decision point: answers recycled safely, exactly or by inference."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from sdp_cache.point import Recycler, Recycling, SecondaryPoint
    from sdp_cache.snapshots import Snapshot, SnapshotRefused
    from sdp_cache.validity import LeaseRules, Step

__all__ = [
    "LeaseRules", "Recycler", "Recycling", "SecondaryPoint", "Snapshot", "SnapshotRefused", "Step",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".point": "Recycler Recycling SecondaryPoint",
        ".snapshots": "Snapshot SnapshotRefused",
        ".validity": "LeaseRules Step",
    },
)
