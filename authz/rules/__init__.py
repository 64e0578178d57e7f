"""Interaction control: the language of rules about who receives which events, in which form, past ones too."""

from authz.rules.reader import parse_rules, parse_term
from authz.rules.syntax import (
    Allow,
    AllowDuring,
    Asking,
    AutoReplay,
    During,
    FluentRule,
    Point,
    Rate,
    Restrict,
    Rule,
    Scope,
    Transform,
    Trigger,
)
from authz.rules.terms import Call, Moment
from authz.rules.writer import write_rule

__all__ = [
    "Allow", "AllowDuring", "Asking", "AutoReplay", "Call", "During", "FluentRule", "Moment", "Point", "Rate",
    "Restrict", "Rule", "Scope", "Transform", "Trigger", "parse_rules", "parse_term", "write_rule",
]  # fmt: skip
