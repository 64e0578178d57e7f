"""The checks of a chaos run: whether its record shows anything that is promised never to happen."""

from authfabric.chaos.checker.verdict import Verdict, check
from authfabric.chaos.checker.violations import Kind, Violation

__all__ = ["Kind", "Verdict", "Violation", "check"]
