"""OASIS roles at work: sessions in which roles are activated by proof, watched, and deactivated in cascade."""

from pdp.sessions.appointment import BEARER, Appointment
from pdp.sessions.environment import (
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
from pdp.sessions.membership import Deactivation, Membership
from pdp.sessions.role_capability import capability
from pdp.sessions.role_service import RoleService, RoleServing
from pdp.sessions.sessions import Cascade, Draft, Refusal, Sessions

__all__ = [
    "BEARER", "Alive", "Appointment", "Asserted", "Cascade", "Changed", "Deactivation", "Draft", "Event",
    "Membership", "Refusal", "Retracted", "Revoked", "RoleService", "RoleServing", "Sessions", "capability",
    "context_channel", "fact_channel", "issuer_channel",
]  # fmt: skip
