"""OASIS roles as policies: the rule language, role domains, and privileges as a policy source."""

from pdp.oasis.actions import about
from pdp.oasis.constraint import Case, bind, compile_constraint, variables
from pdp.oasis.difference import hierarchy, reach, role_effects, seniorities_differ
from pdp.oasis.domain import PRINCIPAL, Domains
from pdp.oasis.empowering import grant, grants_of
from pdp.oasis.errors import (
    CommandRefused,
    InvalidAppointment,
    InvalidTerm,
    NotEntitled,
    NotWatched,
    RolesUnavailable,
    SessionInUse,
    UnknownSession,
)
from pdp.oasis.parser import parse
from pdp.oasis.role_hierarchy import RoleHierarchy
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.source import ROLES, RoleSource
from pdp.oasis.syntax import (
    Activation,
    Appointed,
    Appointing,
    Authorisation,
    Condition,
    Constraint,
    Fact,
    Prerequisite,
    RuleSet,
    unparse,
)
from pdp.oasis.terms import (
    Atom,
    Bindings,
    Constant,
    Instance,
    Variable,
    ground,
    is_constant,
    match,
    substitute,
)

__all__ = [
    "PRINCIPAL", "ROLES", "Activation", "Appointed", "Appointing", "Atom", "Authorisation", "Bindings",
    "Case", "CommandRefused", "Condition", "Constant", "Constraint", "Domains", "Fact", "Instance",
    "InvalidAppointment", "InvalidTerm", "NotEntitled", "NotWatched", "Prerequisite", "RoleHierarchy",
    "RoleSource", "RolesUnavailable", "RuleSet", "Rulebook", "SessionInUse", "UnknownSession", "Variable",
    "about", "bind", "compile_constraint", "grant", "grants_of", "ground", "hierarchy", "is_constant",
    "match", "parse", "reach", "role_effects", "seniorities_differ", "substitute", "unparse", "variables",
]  # fmt: skip
