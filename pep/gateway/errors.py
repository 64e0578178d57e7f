"""What the gateway refuses, and with which status."""

from __future__ import annotations

from authz import AuthFabricError


class Refused(AuthFabricError):
    """A request that is answered with an error of HTTP: `status` and what is wrong."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class UnknownType(AuthFabricError):
    """An entity of a type that the gateway does not map. It has no rights, and is found by no search."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"`{name}` is no type of {kind} here")
