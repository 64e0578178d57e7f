"""Interaction control at the decision point: rules as policies, whose obligations brokers fulfil."""

from pdp.rules.interaction import Interaction
from pdp.rules.rule_file import RuleFile, read_rule_file
from pdp.rules.split import Alternative, split

__all__ = ["Alternative", "Interaction", "RuleFile", "read_rule_file", "split"]
