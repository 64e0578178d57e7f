"""What a key may have for a while: what it was enrolled with, or what the roles active in its session give.

Capabilities that are handed out live last a short time only, and are handed out again as long as the entitlement
does. So whoever is struck off, or leaves a role, loses them by themselves even where no revocation is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from authz import AuthFabricError, PublicKey
from authz.spki import Authority, Certificate, Grant, Revocations
from bus.nats import Connection
from bus.services import SESSION, SessionView, hearing_changes, look_at_session, service_name
from bus.wire import DEFAULT_DOMAIN
from pdp.oasis import Instance, Rulebook, grant, match


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What may be handed out to somebody now, and until when at the latest; None for no end."""

    authority: Authority
    until: float | None = None
    delegate: bool = False


class NotEntitledHere(AuthFabricError):
    """Nothing may be issued to this key: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Enrolment:
    """The members of a domain, as they are listed at this moment."""

    def __init__(self, members: Callable[[], Mapping[str, Certificate]], issuer: PublicKey) -> None:
        """Those are renewed whom this key has granted what they have: whose key was exchanged since, are not."""
        self._members = members
        self._issuer = issuer

    def entitlement(self, key: PublicKey, at: float, revocations: Revocations) -> Entitlement:
        """What somebody was enrolled with, unless that was revoked. Raises NotEntitledHere."""
        for certificate in self._members().values():
            capability = certificate.unverified()
            if revocations.revoker([certificate.id], [capability.issuer]) is not None:
                continue
            if capability.subject == key and capability.validity.covers(at):
                if capability.issuer != self._issuer:
                    raise NotEntitledHere(
                        f"`{key}` was granted what it has by a key that was exchanged since: grant it anew"
                    )
                return Entitlement(capability.authority, capability.validity.end, capability.delegate)
        raise NotEntitledHere(f"`{key}` is no member of this domain, or is no longer")


class RoleEntitlement:
    """What the active roles of a session give, by the rules in force."""

    def __init__(
        self,
        bus: Connection,
        service: PublicKey,
        rulebook: Callable[[str], Rulebook],
        domain: str = DEFAULT_DOMAIN,
    ) -> None:
        """`service` is the key of the domain's role service, whose word on sessions counts.

        `rulebook` gives the rules in force in a domain.
        """
        self._bus = bus
        self._service = service
        self._rulebook = rulebook
        self._domain = domain

    def hearing_changes(self, changed: Callable[[list[str]], None]) -> AbstractAsyncContextManager[None]:
        """Call back with the sessions that have changed, for the length of the block."""

        def hear(root: str, ids: Sequence[str]) -> None:
            if root == SESSION:
                changed(list(ids))

        return hearing_changes(self._bus, service_name(self._domain), self._service, hear, self._domain)

    async def entitlement(self, key: PublicKey, session: str, at: float) -> Entitlement:
        """What a session gives to the key that opened it. Raises NotEntitledHere."""
        view = await look_at_session(self._bus, self._service, session, self._domain)
        if view is None or view.key != str(key):
            raise NotEntitledHere(f"`{key}` has no session `{session}` here")
        grants = role_grants(self._rulebook(view.rules), view)
        if not grants:
            raise NotEntitledHere(f"no role active in `{session}` gives a capability")
        return Entitlement(Authority.of(*grants))


def role_grants(rulebook: Rulebook, view: SessionView) -> list[Grant]:
    """What the roles active in a session empower their holder to do."""
    roles = [Instance.parse(text) for text in view.roles]
    return [
        grant(rule, bindings)
        for active in roles
        for role in rulebook.implied(active)
        for rule in rulebook.empowerings
        if (bindings := match(rule.role, role, {})) is not None
    ]
