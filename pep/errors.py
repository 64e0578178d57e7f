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


class NobodyTrusted(AuthFabricError):
    """Nothing says whose PDPs are believed at `address`, so nobody is asked."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"nobody is trusted to decide at `{address}`: name a key by `trust=`, `--trust` or AUTHFABRIC_TRUST"
            " (`authfabric up` prints it), or use credentials that name one (`authfabric domain grant` writes them);"
            " `trust=UNVERIFIED`, or `--insecure` for a command, believes whoever answers"
        )
        self.address = address
