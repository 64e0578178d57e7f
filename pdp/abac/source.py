"""Attribute policies as a source: found by index, combined by their algorithm."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from authz.decision import Reason
from authz.request import Request
from pdp.abac.policy import Algorithm, Policy
from pdp.index import Index
from pdp.reference import applies
from pdp.reference import judge as judge_applicable
from pdp.source import SILENT, Effect, Verdict


class _Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A policy, with what of it matters once it applies."""

    id: str
    wins: bool
    """Whether its effect overrides the other."""
    priority: int
    verdict: Verdict
    """What is to be said if it alone applies."""


class AbacSource:
    """A set of policies under one combining algorithm."""

    def __init__(self, policies: Sequence[Policy], algorithm: Algorithm, name: str = "abac") -> None:
        self.name = name
        self.policies = tuple(policies)
        self.algorithm = algorithm
        wins = Effect.ALLOW if algorithm is Algorithm.ALLOW_OVERRIDES else Effect.DENY
        self._search = Index(
            (
                each.condition,
                _Entry(each.id, each.effect is wins, each.priority, Verdict(each.effect, (each.id,))),
            )
            for each in self.policies
        ).search

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        found: list[_Entry] = []
        try:
            self._search(request, found.append)
        except Exception:
            return self._judge_each(request)
        if not found:
            return SILENT
        if len(found) == 1:
            return found[0].verdict
        return self._combine(found)

    def _combine(self, found: list[_Entry]) -> Verdict:
        if self.algorithm is Algorithm.HIGHEST_PRIORITY:
            highest = max([each.priority for each in found])
            found = [each for each in found if each.priority == highest]
        determining = [each for each in found if each.wins] or found
        if len(determining) == 1:
            return determining[0].verdict
        return Verdict(determining[0].verdict.effect, tuple(dict.fromkeys([each.id for each in determining])))

    def _judge_each(self, request: Request) -> Verdict:
        """One policy could not be evaluated: each is tried by itself, and only that one fails, on the safe side."""
        verdict = judge_applicable([each for each in self.policies if applies(each, request)], self.algorithm)
        detail = "a policy could not be evaluated; it was taken to apply if it denies, not to if it allows"
        return msgspec.structs.replace(verdict, reason=Reason.POLICY_ERROR, detail=detail)
