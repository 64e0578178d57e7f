"""What the owners of types say: decided here, by the policies that they have signed.

Invariant: where the owner of a type, or of one that it extends, has a policy, nobody uses the type against it; a policy
that cannot be read permits nothing, nor does one that is not known here though the definition says that there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeAlias

from authz import AuthFabricError, Decision, Reason, Request
from pubsub_core.access.type_object import type_object
from pubsub_core.types import Catalogue, EventType, OwnerPolicies

_log = logging.getLogger("authfabric.events")

UNKNOWN = "the owner of `{}` has a policy, which this broker does not know yet"

Deciding: TypeAlias = Callable[[Request], Decision]


class OwnerPoints:
    """The policies of owners, compiled when they are first asked about."""

    def __init__(self, catalogue: Catalogue, policies: OwnerPolicies) -> None:
        self._catalogue = catalogue
        self._policies = policies
        self._known: dict[bytes, Deciding | None] = {}

    def decide(self, request: Request, definition: EventType) -> Iterator[Decision]:
        """What each owner says who has a say about a type, if it is asked like this."""
        for each in self._catalogue.lineage(definition.id):
            policy = self._policies.of(each.id)
            if policy is None and each.governed:
                yield Decision(False, Reason.POLICY_ERROR, detail=UNKNOWN.format(each.name))
            elif policy is not None and policy.bundle:
                yield self._decide(policy.bundle, request, definition, each)

    def _decide(self, bundle: bytes, request: Request, definition: EventType, owned: EventType) -> Decision:
        decide = self._deciding(bundle)
        if decide is None:
            return Decision(
                False, Reason.POLICY_ERROR, detail="the policy of the type's owner cannot be read"
            )
        decision = decide(request)
        if decision.reason is Reason.NO_POLICY and owned.id != definition.id:
            above = type_object(self._catalogue, owned)
            decision = decide(Request.of(request.subject, above, request.action, request.context))
        return decision

    def _deciding(self, bundle: bytes) -> Deciding | None:
        from pep.local import decide_by  # and with it the engine, which most brokers need not load

        if bundle not in self._known:
            try:
                self._known[bundle] = decide_by(bundle)
            except AuthFabricError as error:
                _log.error("the policy of a type's owner permits nothing: %s", error)
                self._known[bundle] = None
        return self._known[bundle]
