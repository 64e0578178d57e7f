"""What is answered: allow or deny, why, under which policies, and how long it may be relied on."""

from __future__ import annotations

import enum
from collections.abc import Awaitable
from typing import NoReturn, Protocol

import msgspec

from authz.predicate.terms import Certificate
from authz.request import Request


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
    STALE = "stale"
    NOT_CONNECTED = "not-connected"
    NOT_RECORDED = "not-recorded"


class Effect(enum.StrEnum):
    ALLOW = "allow"
    DENY = "deny"


class Basis(enum.StrEnum):
    """What alone an effect followed from: a statement about the permission, its object and action by id."""

    ROLES = "roles"
    """The permission is granted to single roles and by nothing else: whoever has one of them, or a senior of
    one, among `subject.roles` is allowed; everyone else is denied. The roles are those in `Decision.roles`, which a
    PDP has looked up, or else those that were sent."""
    LABELS = "labels"
    """The labels that the one label policy in force gives to both by id, compared as `read`, `append` and `write` are
    by name. On an allow: they alone decide. On a deny: they forbid this, whatever else may apply."""


class Inference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How an answer was found without asking a PDP: by which method, from which signed answers."""

    method: str
    answers: tuple[str, ...] = ()
    stale: bool = False
    """Whether the lease had ended, so that newer policies may exist."""


class HeldRoles(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The roles of a subject, as a PDP has looked them up, and until when (Unix time) that may be relied on."""

    names: tuple[str, ...]
    until: float


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
    basis: Basis | None = None
    """What alone the effect followed from, if the PDP can say so: caches may then infer further answers."""
    inferred: Inference | None = None
    """How this was inferred; None if a PDP decided this very request."""
    roles: HeldRoles | None = None
    """With `Basis.ROLES`: the roles it rests on, where the PDP has looked them up; None if they were sent."""

    @property
    def effect(self) -> str:
        return "allow" if self.allowed else "deny"

    @property
    def decided(self) -> bool:
        """Whether a PDP decided this by its policies, rather than the fabric failing closed."""
        return self.reason in _DECIDED

    def as_problem(self) -> dict[str, object]:
        """The denial as a problem+json document (RFC 9457). It names no policy, and repeats no detail.

        Raises ValueError for an allow, which is no problem.
        """
        if self.allowed:
            raise ValueError("an allow is no problem: it has nothing to tell the caller")
        status = 403 if self.decided else 400 if self.reason is Reason.INVALID_REQUEST else 503
        title, detail = _PROBLEMS[status]
        return {"type": "about:blank", "title": title, "status": status, "detail": detail}

    def __bool__(self) -> NoReturn:
        raise TypeError("a Decision has no truth value: use `decision.allowed`, or `await pep.require(...)`")

    def __str__(self) -> str:
        text = f"{self.effect} ({self.reason}"
        if self.policies:
            text += ": " + ", ".join(self.policies)
        return text + (f"): {self.detail}" if self.detail else ")")


_DECIDED = frozenset({Reason.POLICY, Reason.NO_POLICY, Reason.ATTRIBUTE_UNAVAILABLE, Reason.POLICY_ERROR})
_PROBLEMS = {
    400: ("Bad Request", "This cannot be asked."),
    403: ("Forbidden", "You may not do this."),
    503: ("Service Unavailable", "Access cannot be decided now. Try again later."),
}


class DecisionPoint(Protocol):
    """Answers requests. A failure to decide is a denial with its reason, and not an exception.

    Decision points wrap one another: each answers what it can, and passes the rest on.
    """

    def decide(self, request: Request) -> Awaitable[Decision]:
        """Raises InvalidRequest for what cannot be asked at all."""
        ...
