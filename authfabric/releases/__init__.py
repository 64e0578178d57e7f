"""Policies as operators handle them: where they come from, how far a release has come, and who decides by it."""

from authfabric.releases.policy_sources import CURRENT, PolicySources
from authfabric.releases.replica_readiness import NotDeciding, deciding
from authfabric.releases.rollout import SHOWN, Rollout, watching

__all__ = [
    "CURRENT",
    "SHOWN",
    "NotDeciding",
    "PolicySources",
    "Rollout",
    "deciding",
    "watching",
]
