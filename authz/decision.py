"""What is answered: allow or deny, why, under which policies, and how long it may be relied on."""

from __future__ import annotations

import enum
from typing import NoReturn

import msgspec

from authz.predicate.terms import Certificate


class Reason(enum.StrEnum):
    """Why a decision is what it is. All but `POLICY` deny: the fabric fails closed."""

    POLICY = "policy"
    NO_POLICY = "no-policy"
    INVALID_REQUEST = "invalid-request"
    ATTRIBUTE_UNAVAILABLE = "attribute-unavailable"
    POLICY_ERROR = "policy-error"
    NO_PDP = "no-pdp"
    TIMEOUT = "timeout"
    BUSY = "busy"
    NOT_CONNECTED = "not-connected"


class Decision(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An answer to one request. It has no truth value: read `.allowed`."""

    allowed: bool
    reason: Reason = Reason.POLICY
    policies: tuple[str, ...] = ()
    """The policies that determined the effect, by id."""
    detail: str = ""
    """One sentence for a person, where `reason` alone does not say enough."""
    epoch: int = 0
    """The version of the policies under which this was decided."""
    expires: float | None = None
    """Unix time after which the answer must not be used again; None if only a policy change voids it."""
    obligations: tuple[dict[str, object], ...] = ()
    """What the enforcer must also do when it lets the request through."""
    certificate: Certificate | None = None
    """Literals over a request that imply this effect under this epoch: whoever satisfies them gets it."""

    @property
    def effect(self) -> str:
        return "allow" if self.allowed else "deny"

    @property
    def decided(self) -> bool:
        """Whether a PDP decided this by its policies, rather than the fabric failing closed."""
        return self.reason in _DECIDED

    def __bool__(self) -> NoReturn:
        raise TypeError("a Decision has no truth value: use `decision.allowed`, or `await pep.require(...)`")

    def __str__(self) -> str:
        text = f"{self.effect} ({self.reason}"
        if self.policies:
            text += ": " + ", ".join(self.policies)
        return text + (f"): {self.detail}" if self.detail else ")")


_DECIDED = frozenset({Reason.POLICY, Reason.NO_POLICY, Reason.ATTRIBUTE_UNAVAILABLE, Reason.POLICY_ERROR})
