"""A policy as the engine sees it: an effect, a priority, and one predicate that says when it applies."""

from __future__ import annotations

import enum

import msgspec

from authz.decision import Effect
from authz.predicate import Predicate


class Algorithm(enum.StrEnum):
    """How the policies that apply to a request make one effect. Without any there is none."""

    DENY_OVERRIDES = "deny-overrides"
    """One deny denies."""
    ALLOW_OVERRIDES = "allow-overrides"
    """One allow allows."""
    HIGHEST_PRIORITY = "highest-priority"
    """Only those of the highest priority count; among them, one deny denies."""


class Policy(msgspec.Struct, frozen=True):
    """One policy, from whatever text it was read."""

    id: str
    effect: Effect
    condition: Predicate
    priority: int = 0
    description: str = ""
    obligations: tuple[dict[str, object], ...] = ()
    """What the enforcer must also do where this policy determines the effect."""
