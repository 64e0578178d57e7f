"""Attribute policies as a source: found by index, combined by their algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from authz.decision import Effect, Reason
from authz.explanation import PolicyExplanation
from authz.predicate import TRUE, Predicate
from authz.request import Request
from pdp.abac.policy import Algorithm, Policy
from pdp.abac.reference import applies
from pdp.abac.reference import judge as judge_applicable
from pdp.abac.role_grants import RoleGrants, pack_concerns
from pdp.engine import (
    SILENT,
    Certifier,
    Filing,
    Index,
    Plan,
    Verdict,
    demands,
    explain_policy,
    is_about,
    pack_index,
)

MOST_KEPT = 4096
"""Maximum combined verdicts of several policies that are remembered."""


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


Rank: TypeAlias = tuple[bool | None, int]
"""Whether an effect overrides the other (None: not applicable), and its priority where that counts."""
MOST_RANKS = 16
"""Maximum ranks whose rivals are packed."""


class PackedSource(msgspec.Struct, frozen=True, array_like=True):
    """What a source looks its policies up by, as data; the policies are given by number."""

    index: bytes
    rivals: list[tuple[Rank, bytes]]
    """For each rank the rivals, filed, packed too."""
    concerns: bytes = b""
    """The index of what each policy is about; empty if none grants to roles."""

    @classmethod
    def of(cls, policies: Sequence[Policy], algorithm: Algorithm) -> PackedSource:
        """Raises InvalidPredicate for a condition that cannot be meant."""
        source = AbacSource(policies, algorithm, packed=cls(_NO_INDEX, []))
        ranks = list(dict.fromkeys([_SILENCE, *(source.rank(source.entry(n)) for n in range(len(policies)))]))
        return cls(
            pack_index((number, each.condition) for number, each in enumerate(policies)),
            [(rank, msgspec.msgpack.encode(source.rivals(rank))) for rank in ranks[:MOST_RANKS]],
            pack_concerns(policies),
        )


_SILENCE: Rank = (None, 0)
_NO_INDEX = pack_index(())


class AbacSource:
    """A set of policies under one combining algorithm."""

    def __init__(
        self,
        policies: Sequence[Policy],
        algorithm: Algorithm,
        name: str = "abac",
        packed: PackedSource | None = None,
    ) -> None:
        """What was `packed` of these policies is used as it is; only policies that apply to requests are then read."""
        self.name = name
        self.policies = policies
        self.algorithm = algorithm
        self._wins = Effect.ALLOW if algorithm is Algorithm.ALLOW_OVERRIDES else Effect.DENY
        self._by_priority = algorithm is Algorithm.HIGHEST_PRIORITY
        self._entries: dict[int, _Entry] = {}
        self._silence = _Entry(TRUE, "", False, 0, SILENT)
        self._together: dict[tuple[_Entry, ...], tuple[_Entry, Verdict]] = {}
        self._certifiers: dict[Rank, Certifier] = {}
        self._packed = packed
        self._by_roles: RoleGrants | None = None
        if packed is None:
            numbered = ((each.condition, self.entry(n)) for n, each in enumerate(policies))
            self._search = Index(numbered).search
        else:
            self._search = Index.opened(packed.index, self._numbered).search

    def entry(self, number: int) -> _Entry:
        """The policy with this number, always as the same object."""
        entry = self._entries.get(number)
        if entry is None:
            policy = self.policies[number]
            verdict = Verdict(policy.effect, (policy.id,), obligations=policy.obligations)
            wins = policy.effect is self._wins
            entry = self._entries[number] = _Entry(
                policy.condition, policy.id, wins, policy.priority, verdict
            )
        return entry

    def _numbered(self, number: int) -> tuple[Predicate, _Entry]:
        entry = self.entry(number)
        return entry.condition, entry

    def _condition(self, number: int) -> Predicate:
        return self.entry(number).condition

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
        basis, unconcerned = (self._by_roles or self._role_grants()).standing(request)
        return Verdict(verdict.effect, verdict.policies, certificate, basis=basis, unconcerned=unconcerned)

    def _role_grants(self) -> RoleGrants:
        """Made when the first decision is certified."""
        packed = None if self._packed is None else self._packed.concerns
        self._by_roles = RoleGrants(self.policies, packed)
        return self._by_roles

    def prepare(self) -> None:
        """Do now what the first certificates would otherwise wait for."""
        self._plan(self._silence)
        self._role_grants()
        if self._packed is not None:
            ranks = {rank for rank, _ in self._packed.rivals}
        else:
            ranks = set(map(self.rank, {each.wins: each for each in self._entries.values()}.values()))
        for rank in ranks:
            self._certifier(rank)

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
        entry.plan = self._certifier(self.rank(entry)).plan(entry.condition)
        return entry.plan

    def rank(self, entry: _Entry) -> Rank:
        """What its verdicts are certified as."""
        if entry is self._silence:
            return _SILENCE
        return entry.wins, entry.priority if self._by_priority else 0

    def _certifier(self, rank: Rank) -> Certifier:
        """Made when first asked for, against the policies that would change an effect found so."""
        certifier = self._certifiers.get(rank)
        if certifier is None:
            packed = dict(self._packed.rivals).get(rank) if self._packed is not None else None
            filed = self.rivals(rank) if packed is None else msgspec.msgpack.decode(packed, type=Filing)
            certifier = self._certifiers[rank] = Certifier(filed, self._condition)
        return certifier

    def rivals(self, rank: Rank) -> Filing:
        """The policies that would change an effect of this rank."""
        entries = enumerate(map(self.entry, range(len(self.policies))))
        return Filing.of((number, each.condition) for number, each in entries if self._rivals(each, *rank))

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
