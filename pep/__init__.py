"""The policy enforcement point: what a service embeds."""

from pep.enforcer import Enforcer
from pep.errors import AccessDenied, NobodyTrusted, NotOnBus
from pep.hedging import Strategy
from pep.sync import SyncEnforcer
from pep.trust_store import UNVERIFIED
from sdp_cache import LeaseRules, Recycling

__all__ = [
    "UNVERIFIED", "AccessDenied", "Enforcer", "LeaseRules", "NobodyTrusted", "NotOnBus", "Recycling",
    "Strategy", "SyncEnforcer",
]  # fmt: skip
