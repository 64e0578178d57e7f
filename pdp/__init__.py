"""The policy decision point: policies, the engine that decides by them, and the replica that serves them."""

from typing import TYPE_CHECKING

from authz.lazy import lazily

if TYPE_CHECKING:
    from pdp.bundle import Bundle, BundleRefused, InvalidPolicies, PolicySet, read_folder
    from pdp.engine import Engine
    from pdp.replica import PolicyPoint, Replica

__all__ = [
    "Bundle", "BundleRefused", "Engine", "InvalidPolicies", "PolicyPoint", "PolicySet", "Replica",
    "read_folder",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".bundle": "Bundle BundleRefused InvalidPolicies PolicySet read_folder",
        ".engine": "Engine",
        ".replica": "PolicyPoint Replica",
    },
)
