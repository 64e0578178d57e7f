"""Interaction control at the decision point: rules as policies, whose obligations brokers fulfil."""

from pdp.rules.interaction import REPLAY, SUBSCRIBE, Interaction
from pdp.rules.rule_file import RuleFile, overrides, read_rule_file, type_of
from pdp.rules.split import Alternative, split

__all__ = [
    "REPLAY", "SUBSCRIBE", "Alternative", "Interaction", "RuleFile", "overrides", "read_rule_file", "split",
    "type_of",
]  # fmt: skip
