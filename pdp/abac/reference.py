"""What a decision is, as a specification: short, slow, and obviously right. The engine must agree with it.

A policy applies if its condition holds. One that cannot be evaluated fails safe by itself: an allow does
not apply, a deny does. The algorithm makes one effect of those that apply; several sources are combined
deny-overrides; and what nobody has anything to say about is denied.
"""

from __future__ import annotations

from collections.abc import Sequence

from authz.decision import Decision, Effect, Reason
from authz.predicate import compile_predicate
from authz.request import Request
from pdp.abac.policy import Algorithm, Policy
from pdp.engine import SILENT, PolicySource, Verdict, combine


class Reference:
    """A policy source that looks at every policy, one after the other."""

    def __init__(self, policies: Sequence[Policy], algorithm: Algorithm, name: str = "abac") -> None:
        self.name = name
        self._policies = policies
        self._algorithm = algorithm

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        return judge([each for each in self._policies if applies(each, request)], self._algorithm)


def applies(policy: Policy, request: Request) -> bool:
    try:
        return compile_predicate(policy.condition)(request)
    except Exception:
        return policy.effect is Effect.DENY


def judge(applicable: Sequence[Policy], algorithm: Algorithm) -> Verdict:
    """The verdict of the policies that apply, naming those that determine it."""
    if not applicable:
        return SILENT
    if algorithm is Algorithm.HIGHEST_PRIORITY:
        highest = max(each.priority for each in applicable)
        applicable = [each for each in applicable if each.priority == highest]
    wins = Effect.ALLOW if algorithm is Algorithm.ALLOW_OVERRIDES else Effect.DENY
    determining = [each for each in applicable if each.effect is wins] or applicable
    obligations = tuple(duty for each in determining for duty in each.obligations)
    return Verdict(determining[0].effect, tuple(each.id for each in determining), obligations=obligations)


def decide(sources: Sequence[PolicySource], request: Request, epoch: int = 0) -> Decision:
    """The decision of several sources together."""
    verdict = combine([each.judge(request) for each in sources])
    if verdict.effect is None:
        return Decision(False, Reason.NO_POLICY, epoch=epoch)
    allowed = verdict.effect is Effect.ALLOW
    return Decision(
        allowed, verdict.reason, verdict.policies, verdict.detail, epoch, verdict.expires, verdict.obligations
    )
