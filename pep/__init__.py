"""The policy enforcement point: what a service embeds."""

from pep.enforcer import Enforcer
from pep.errors import AccessDenied
from pep.strategy import Strategy
from pep.sync import SyncEnforcer
from sdp_cache import LeaseRules, Recycling

__all__ = ["AccessDenied", "Enforcer", "LeaseRules", "Recycling", "Strategy", "SyncEnforcer"]
