"""The shadow evaluator: deciding a second time, slowly, by the reference, and by py-abac for attribute policies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal, NamedTuple

from authz import Decision, Request
from authz.decision import Effect
from pdp.abac import AbacSource, Algorithm, Oracle, OracleError, read_policy, reference
from pdp.bundle import PolicySet
from pdp.engine import PolicySource

_log = logging.getLogger("authfabric.pdp")


class Divergence(NamedTuple):
    """A request that was decided in one way, and is decided in another by what defines the meaning."""

    against: Literal["reference", "py-abac"]
    request: Request
    decision: Decision
    other: Decision

    def __str__(self) -> str:
        return f"{self.request!r}: the engine says {self.decision}, {self.against} says {self.other}"


class Judge:
    """Policies as they are meant. Not for several threads: py-abac is not."""

    def __init__(self, policies: PolicySet) -> None:
        algorithm = policies.manifest.algorithm
        others = [each for each in policies.sources() if not isinstance(each, AbacSource)]
        abac = reference.Reference(policies.policies, algorithm)
        rules = reference.Reference(policies.interaction.policies, Algorithm.ALLOW_OVERRIDES, "rules")
        self._sources: list[PolicySource] = [abac, rules, *others]
        self._oracle: Oracle | None = None
        try:
            self._oracle = Oracle(policies.written(), algorithm)
            # What is different on purpose is no divergence: docs/design/py-abac-differences.md.
            meant = [read_policy(each, as_py_abac=True) for each in policies.written()]
            self._as_py_abac = reference.Reference(meant, algorithm)
        except OracleError as error:
            _log.warning(
                "py-abac cannot read these policies, so they are compared with the reference only: %s", error
            )

    def divergences(self, request: Request, decision: Decision) -> Iterator[Divergence]:
        """Where the answer that was given differs from those that should have been."""
        specified = reference.decide(self._sources, request, decision.epoch)
        if specified.allowed is not decision.allowed or set(specified.policies) != set(decision.policies):
            yield Divergence("reference", request, decision, specified)
        if self._oracle is None:
            return
        try:
            allowed = self._oracle.allows(request)
        except OracleError:
            return  # where py-abac breaks down it says nothing about what is right
        if allowed is not (self._as_py_abac.judge(request).effect is Effect.ALLOW):
            yield Divergence("py-abac", request, decision, Decision(allowed, epoch=decision.epoch))
