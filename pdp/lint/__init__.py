"""What is wrong with policies that can be read, what their test cases say, and what a change alters."""

from pdp.lint.difference import Difference, obliging
from pdp.lint.linter import check
from pdp.lint.release_checks import (
    CasesFailed,
    PoliciesRefused,
    ReasonNeeded,
    examine,
    extremes,
    justify,
    read_tested,
)
from pdp.lint.rule_check import check_interaction
from pdp.lint.test_cases import Outcome, Report, read_cases, run_cases

__all__ = [
    "CasesFailed", "Difference", "Outcome", "PoliciesRefused", "ReasonNeeded", "Report", "check",
    "check_interaction", "examine", "extremes", "justify", "obliging", "read_cases", "read_tested", "run_cases",
]  # fmt: skip
