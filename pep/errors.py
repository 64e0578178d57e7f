"""What a service that embeds the PEP may have to catch."""

from __future__ import annotations

from authz import AuthFabricError, Decision, Request


class AccessDenied(AuthFabricError):
    """The request was not allowed. `decision` says why; `request` what was asked."""

    def __init__(self, request: Request, decision: Decision) -> None:
        super().__init__(
            f"`{request.subject.id}` may not `{request.action.id}` `{request.object.id}`: {decision}"
        )
        self.request = request
        self.decision = decision
