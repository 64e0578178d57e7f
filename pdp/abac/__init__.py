"""Attribute policies: the language of py-abac, read into predicates and decided by an index over them."""

from typing import TYPE_CHECKING

from authz.lazy import lazily
from pdp.abac import reference
from pdp.abac.path import ROOTS, read_path
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.reader import read_policies, read_policy
from pdp.abac.role_grants import grants_to_roles
from pdp.abac.schema import policy_schema
from pdp.abac.source import AbacSource, PackedSource

if TYPE_CHECKING:
    from pdp.abac.oracle import Oracle, OracleError

__all__ = [
    "ROOTS",
    "AbacSource",
    "Algorithm",
    "Oracle",
    "OracleError",
    "PackedSource",
    "Policy",
    "grants_to_roles",
    "policy_schema",
    "read_path",
    "read_policies",
    "read_policy",
    "reference",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        ".oracle": "Oracle OracleError",
    },
)
