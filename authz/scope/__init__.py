"""Scopes: the objects that somebody may see, as one predicate for lists, and as SQL."""

from authz.scope.scope import Scope, ScopeExpired, ScopePart, ScopeRefused, ScopeUnavailable

__all__ = ["Scope", "ScopeExpired", "ScopePart", "ScopeRefused", "ScopeUnavailable"]
