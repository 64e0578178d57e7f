"""The policy enforcement point: what a service embeds."""

from pep.enforcer import Enforcer
from pep.errors import AccessDenied
from pep.strategy import Strategy
from pep.sync import SyncEnforcer

__all__ = ["AccessDenied", "Enforcer", "Strategy", "SyncEnforcer"]
