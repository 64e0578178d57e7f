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


class SearchRefused(AuthFabricError):
    """A search that a replica could not make: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the search was refused: {problem}")
        self.problem = problem


class ExplanationRefused(AuthFabricError):
    """A request that a replica could not explain: `problem` says why."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"there is no explanation: {problem}")
        self.problem = problem


class NotOnBus(AuthFabricError):
    """An enforcer that decides in its own process has no bus, and nothing that is on one."""

    def __init__(self) -> None:
        super().__init__(
            "this enforcer decides in its own process: use `Enforcer.connect` to ask over the bus"
        )


class NobodyTrusted(AuthFabricError):
    """Nothing says whose PDPs are believed at `address`, so nobody is asked."""

    def __init__(self, address: str, nothing_here: bool = False) -> None:
        """`nothing_here`: no fabric runs on this machine, and no other was named."""
        nothing = "no fabric was found here: `authfabric up` starts one; " if nothing_here else ""
        super().__init__(
            f"{nothing}nobody is trusted to decide at `{address}`: name a key by `trust=`, `--trust` or"
            " AUTHFABRIC_TRUST (`authfabric up` prints it), or use credentials that name one (`authfabric domain grant`"
            " writes them);"
            " `trust=UNVERIFIED`, or `--insecure` for a command, believes whoever answers"
        )
        self.address = address
