"""What is wrong with policies that can be read, what their test cases say, and what a change alters."""

from pdp.lint.difference import Difference, obliging
from pdp.lint.linter import check, examine
from pdp.lint.rule_check import check_interaction
from pdp.lint.test_cases import Outcome, Report, read_cases, run_cases

__all__ = [
    "Difference", "Outcome", "Report", "check", "check_interaction", "examine", "obliging", "read_cases",
    "run_cases",
]  # fmt: skip
