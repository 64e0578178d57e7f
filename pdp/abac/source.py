"""Attribute policies as a source: found by index, combined by their algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from authz.decision import Reason
from authz.predicate import TRUE, Predicate
from authz.request import Request
from pdp.abac.policy import Algorithm, Policy
from pdp.certify import Certifier, Plan
from pdp.explain import PolicyExplanation, explain_policy, is_about
from pdp.index import Index
from pdp.reference import applies
from pdp.reference import judge as judge_applicable
from pdp.refute import demands
from pdp.source import SILENT, Effect, Verdict

MOST_KEPT = 4096
"""The most combined verdicts, each of several policies together, that are remembered."""


@dataclass(slots=True, eq=False)
class _Entry:
    """A policy, with what of it matters once it applies."""

    condition: Predicate
    id: str
    wins: bool
    """Whether its effect overrides the other."""
    priority: int
    verdict: Verdict
    """What is to be said if it alone applies."""
    plan: Plan | None = None
    """How its verdicts are certified, once that was asked for."""


class AbacSource:
    """A set of policies under one combining algorithm."""

    def __init__(self, policies: Sequence[Policy], algorithm: Algorithm, name: str = "abac") -> None:
        self.name = name
        self.policies = tuple(policies)
        self.algorithm = algorithm
        wins = Effect.ALLOW if algorithm is Algorithm.ALLOW_OVERRIDES else Effect.DENY
        self._entries = [
            _Entry(
                each.condition,
                each.id,
                each.effect is wins,
                each.priority,
                Verdict(each.effect, (each.id,), obligations=each.obligations),
            )
            for each in self.policies
        ]
        self._search = Index((each.condition, each) for each in self._entries).search
        self._by_priority = algorithm is Algorithm.HIGHEST_PRIORITY
        self._silence = _Entry(TRUE, "", False, 0, SILENT)
        self._together: dict[tuple[_Entry, ...], tuple[_Entry, Verdict]] = {}
        self._certifiers: dict[tuple[bool | None, int], Certifier] = {}

    def judge(self, request: Request, certify: bool = False) -> Verdict:
        found: list[_Entry] = []
        try:
            self._search(request, found.append)
        except Exception:
            return self._judge_each(request)
        if len(found) > 1:
            one, verdict = self._together.get(key := tuple(found)) or self._combine(key)
        else:
            one = found[0] if found else self._silence
            verdict = one.verdict
        if not certify or verdict.obligations:  # which the certificate of one policy would not imply
            return verdict
        try:
            certificate = (one.plan or self._plan(one))(request)
        except Exception:  # a decision stands without its certificate
            certificate = None
        return Verdict(verdict.effect, verdict.policies, certificate)

    def prepare(self) -> None:
        """Do now what the first certificates would otherwise wait for."""
        self._plan(self._silence)
        for entry in {each.wins: each for each in self._entries}.values():
            self._certifier(entry)

    def _combine(self, found: tuple[_Entry, ...]) -> tuple[_Entry, Verdict]:
        """The verdict of several that apply, and the one of them that is most easily certified; kept, as it recurs."""
        counting: Sequence[_Entry] = found
        if self._by_priority:
            highest = max(each.priority for each in found)
            counting = [each for each in found if each.priority == highest]
        determining = [each for each in counting if each.wins] or counting
        one = min(determining, key=lambda each: len(demands(each.condition)[0]))
        verdict = Verdict(
            one.verdict.effect,
            tuple(dict.fromkeys(each.id for each in determining)),
            obligations=tuple(duty for each in determining for duty in each.verdict.obligations),
        )
        if len(self._together) >= MOST_KEPT:
            self._together.clear()
        self._together[found] = one, verdict
        return one, verdict

    def _plan(self, entry: _Entry) -> Plan:
        entry.plan = self._certifier(entry).plan(entry.condition)
        return entry.plan

    def _certifier(self, entry: _Entry) -> Certifier:
        """Made when first asked for, against the policies that would change an effect found so."""
        wins = None if entry is self._silence else entry.wins
        rank = (wins, entry.priority if self._by_priority else 0)
        if rank not in self._certifiers:
            rivals = [each.condition for each in self._entries if self._rivals(each, *rank)]
            self._certifiers[rank] = Certifier(rivals)
        return self._certifiers[rank]

    def _rivals(self, entry: _Entry, wins: bool | None, priority: int) -> bool:
        """Whether an entry would change the effect of one that wins or not, or add obligations to it.

        All would change silence.
        """
        if wins is None:
            return True
        if entry.verdict.obligations and entry.wins is wins:
            return not self._by_priority or entry.priority >= priority
        if wins:
            return self._by_priority and not entry.wins and entry.priority > priority
        return entry.wins and (not self._by_priority or entry.priority >= priority)

    def explain(self, request: Request) -> tuple[Sequence[PolicyExplanation], int]:
        """The policies whose targets fit, each with what it lacks, and how many more there are."""
        about = [each for each in self.policies if is_about(each.condition, request)]
        explained = [
            explain_policy(request, each.id, self.name, each.effect, each.condition, each.description)
            for each in about
        ]
        return explained, len(self.policies) - len(about)

    def _judge_each(self, request: Request) -> Verdict:
        """One policy could not be evaluated: each is tried by itself, and only that one fails, safely."""
        verdict = judge_applicable([each for each in self.policies if applies(each, request)], self.algorithm)
        detail = "a policy could not be evaluated: it was taken to apply if it denies, and not if it allows"
        return msgspec.structs.replace(verdict, reason=Reason.POLICY_ERROR, detail=detail)
