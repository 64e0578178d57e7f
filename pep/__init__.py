"""The policy enforcement point: what a service embeds."""

from pep.asking import Strategy
from pep.enforcer import Enforcer
from pep.errors import AccessDenied, NobodyTrusted, NotOnBus
from pep.sync import SyncEnforcer
from pep.trust import UNVERIFIED
from sdp_cache import LeaseRules, Recycling

__all__ = [
    "UNVERIFIED", "AccessDenied", "Enforcer", "LeaseRules", "NobodyTrusted", "NotOnBus", "Recycling",
    "Strategy", "SyncEnforcer",
]  # fmt: skip
