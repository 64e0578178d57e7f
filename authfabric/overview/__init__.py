"""What a fabric looks like now: its members and how far each is, what is in force, and the servers that keep it."""

from authfabric.overview.diagnosis import NONE_HEARD, Finding, diagnose
from authfabric.overview.fabric_view import (
    FabricView,
    MemberView,
    NodeView,
    ReleaseView,
    State,
    describe,
    look,
    look_again,
    release_view,
)

__all__ = [
    "NONE_HEARD", "FabricView", "Finding", "MemberView", "NodeView", "ReleaseView", "State", "describe",
    "diagnose", "look", "look_again", "release_view",
]  # fmt: skip
