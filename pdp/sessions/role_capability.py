"""From an active role to the capability its holder presents, as the rules of the domain say.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section V: the domain's
policy is by roles, while brokers see certificates. Invariant: a capability lasts no longer than the role can by itself;
whoever ends the role before must also revoke the capability.
"""

from __future__ import annotations

from authz import Identity, PublicKey
from authz.spki import Authority, Capability, Certificate, Validity
from pdp.oasis import Rulebook, grants_of
from pdp.sessions.membership import Membership


def capability(
    rulebook: Rulebook, membership: Membership, holder: PublicKey, domain: Identity, until: float
) -> Certificate | None:
    """What the domain certifies of whoever is in a role, from now until then; None if the role gives no capability.

    Raises InvalidCapability if the parameters of the role make no sensible one.
    """
    grants = grants_of(rulebook, membership.role)
    if not grants:
        return None
    end = until if membership.until is None else min(until, membership.until)
    validity = Validity(end=int(end))
    return Capability(domain.public, holder, False, Authority.of(*grants), validity).sign(domain)
