"""The access control service of a domain: who may connect, what they may say and hear there, and for how long."""

from pdp.access.carried_types import CarriageRights
from pdp.access.connection_accounting import ConnectionAccounting, Share
from pdp.access.control import AccessControl, AccessRules, Admitted, NotAdmitted
from pdp.access.domain import JOIN_REQUEST, Domain, Issuer, JoinRequest, Membership
from pdp.access.domain_store import DomainFolder
from pdp.access.entitlement import Enrolment, RoleEntitlement
from pdp.access.issuing_service import IssuingService
from pdp.access.rotation import begin_rotation, finish_rotation, replace_links, revoke_before, revokers
from pdp.access.server_store import LOCALHOST, server_configuration
from pdp.access.service import AccessService

__all__ = [
    "JOIN_REQUEST", "LOCALHOST", "AccessControl", "AccessRules", "AccessService", "Admitted", "CarriageRights",
    "ConnectionAccounting", "Domain", "DomainFolder", "Enrolment", "Issuer", "IssuingService", "JoinRequest",
    "Membership", "NotAdmitted", "RoleEntitlement", "Share", "begin_rotation", "finish_rotation", "replace_links",
    "revoke_before", "revokers", "server_configuration",
]  # fmt: skip
