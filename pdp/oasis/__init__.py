"""OASIS roles: rules by which principals activate parametrised roles, sessions that watch them, and privileges."""

from pdp.oasis.appointment import BEARER, Appointment
from pdp.oasis.domain import Domains
from pdp.oasis.environment import (
    Alive,
    Asserted,
    Changed,
    Event,
    Retracted,
    Revoked,
    context_channel,
    fact_channel,
    issuer_channel,
)
from pdp.oasis.membership import Deactivation, Membership
from pdp.oasis.parser import parse
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.sessions import Draft, Fallout, Refusal, Sessions
from pdp.oasis.source import RoleSource
from pdp.oasis.syntax import RuleSet, unparse
from pdp.oasis.terms import Atom, Instance, Variable

__all__ = [
    "BEARER",
    "Alive",
    "Appointment",
    "Asserted",
    "Atom",
    "Changed",
    "Deactivation",
    "Domains",
    "Draft",
    "Event",
    "Fallout",
    "Instance",
    "Membership",
    "Refusal",
    "Retracted",
    "Revoked",
    "RoleSource",
    "RuleSet",
    "Rulebook",
    "Sessions",
    "Variable",
    "context_channel",
    "fact_channel",
    "issuer_channel",
    "parse",
    "unparse",
]
