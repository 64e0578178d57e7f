"""Attribute policies: the language of py-abac, read into predicates and decided by an index over them."""

from pdp.abac.policy import Algorithm, Policy
from pdp.abac.reader import read_policies, read_policy

__all__ = ["Algorithm", "Policy", "read_policies", "read_policy"]
