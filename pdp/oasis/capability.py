"""From an active role to the capability its holder presents, as the rules of the domain say.

After Pesonen, Eyers and Bacon, "Access Control in Decentralised Publish/Subscribe Systems", section V: the domain's
policy is by roles, while brokers see certificates. Invariant: a capability lasts no longer than the role can by itself;
whoever ends the role before must also revoke the capability.
"""

from __future__ import annotations

from authz import Identity, PublicKey
from authz.spki import (
    Authority,
    Capability,
    Certificate,
    Grant,
    InvalidCapability,
    Kind,
    Resource,
    Right,
    Validity,
)
from pdp.oasis.constraint import bind_as_written
from pdp.oasis.membership import Membership
from pdp.oasis.rulebook import Rulebook
from pdp.oasis.syntax import Empowering
from pdp.oasis.terms import Bindings, Instance, match


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


def grants_of(rulebook: Rulebook, role: Instance) -> tuple[Grant, ...]:
    """What comes with a role, and with those it implies. Raises InvalidCapability."""
    return tuple(
        grant(rule, bindings)
        for implied in rulebook.implied(role)
        for rule in rulebook.empowerings
        if (bindings := match(rule.role, implied, {})) is not None
    )


def grant(rule: Empowering, bindings: Bindings) -> Grant:
    """What a rule grants, its variables being what they are. Raises InvalidCapability."""
    rights = frozenset(map(_right, rule.rights))
    kinds = {right.kind for right in rights}
    if len(kinds) > 1:
        raise InvalidCapability("rights", "must all be over the same kind of resource: write a rule for each")
    kind = kinds.pop() if kinds else Kind.TYPE
    where = () if rule.where is None else (bind_as_written(rule.where, bindings),)
    return Grant.of(Resource.of(kind, rule.resource), rights or None, rule.attributes or None, where)


def _right(name: str) -> Right:
    try:
        return Right(name)
    except ValueError:
        known = ", ".join(f"`{each}`" for each in Right)
        raise InvalidCapability("rights", f"cannot have `{name}`: use some of {known}") from None
