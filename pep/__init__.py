"""The policy enforcement point: what a service embeds."""

from authz import InvalidRequest
from authz.scope import ScopeExpired, ScopeRefused, ScopeUnavailable
from bus.errors import NoResponders, NotConnected, ReplyTimeout
from bus.wire import SearchQuery
from pep.asking import Strategy
from pep.auditing import AuditRules
from pep.enforcer import Enforcer
from pep.errors import AccessDenied, ExplanationRefused, NobodyTrusted, NotOnBus, SearchRefused
from pep.sync import SyncEnforcer
from pep.trust import UNVERIFIED
from sdp_cache import LeaseRules, Recycling

__all__ = [
    "UNVERIFIED", "AccessDenied", "AuditRules", "Enforcer", "ExplanationRefused", "InvalidRequest", "LeaseRules",
    "NoResponders", "NobodyTrusted", "NotConnected", "NotOnBus", "Recycling", "ReplyTimeout", "ScopeExpired",
    "ScopeRefused", "ScopeUnavailable", "SearchQuery", "SearchRefused", "Strategy", "SyncEnforcer",
]  # fmt: skip
