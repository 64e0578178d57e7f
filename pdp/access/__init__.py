"""The access control service of a domain: who may connect, what they may say and hear there, and for how long."""

from pdp.access.control import AccessControl, AccessRules, Admitted, NotAdmitted
from pdp.access.service import AccessService

__all__ = ["AccessControl", "AccessRules", "AccessService", "Admitted", "NotAdmitted"]
