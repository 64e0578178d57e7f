"""Who may decide, and proof of it: deciders, how they introduce themselves, and decisions they signed."""

from authz.authority.deciders import MAX_DECIDERS, Decider, Deciders
from authz.authority.introduction import Introduction
from authz.authority.statement import MAX_DECISIONS, Statement, decision_hash

__all__ = [
    "MAX_DECIDERS", "MAX_DECISIONS", "Decider", "Deciders", "Introduction", "Statement", "decision_hash",
]  # fmt: skip
