"""Decision certificates: a few literals over a request that imply its effect, whoever asks.

The literals make one determining policy apply, and keep every rival, a policy that would change the effect,
from applying. Rivals may be many, so they are filed by their guards: one literal excludes all that the
request does not reach in a dimension, and only those it reaches are refuted singly, by a greedy cover. What
the determining policy's own literals exclude is found out once, and kept as a plan. Invariant: whatever a
certificate holds of, the determining policy applies to, and no rival does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from authz.predicate import REQUEST, Certificate, Literal, Predicate, consistent
from authz.predicate.witness import compile_witness
from authz.request import Request
from pdp.exclusion import exclusions, reduced
from pdp.refute import Refuter, compile_refuter, demands

Plan: TypeAlias = Callable[[Request], Certificate | None]
"""The certificate for a request of which the determining condition holds, and no rival's; None if there is none."""

MOST = 64
"""Rivals to be refuted one by one for every request; with more there is no certificate."""


class Certifier:
    """Certificates against one set of rivals."""

    def __init__(self, rivals: Sequence[Predicate]) -> None:
        self._literals: dict[Literal, Literal] = {}
        self._exclusions, self._unfiled = exclusions(rivals, self._intern)

    def _intern(self, literal: Literal) -> Literal:
        return self._literals.setdefault(literal, literal)

    def plan(self, determining: Predicate) -> Plan:
        """How requests are certified to which this condition is the reason."""
        literals, others = demands(determining)
        refuters: list[Refuter] = []
        single = list(self._unfiled)
        for each in self._exclusions:
            left, reached = reduced(each, literals)
            single += reached
            if left is not None:
                refuters.append(left.exclude)
        if len(single) > MOST:
            return lambda request: None
        single = [each for each in single if consistent((*literals, *demands(each)[0]))]
        if single:
            refuters.append(compile_refuter(single, self._intern))
        return self._follow(tuple(dict.fromkeys(map(self._intern, literals))), others, refuters)

    def _follow(self, known: Certificate, others: Sequence[Predicate], refuters: list[Refuter]) -> Plan:
        if not others and not refuters:
            return lambda request: known
        witnesses = [compile_witness(each, REQUEST) for each in others]
        several = len(refuters) + len(witnesses) + len(known) > 1  # else none can be there twice

        def certify(request: Request) -> Certificate:
            literals = list(known)
            for witness in witnesses:
                literals += map(self._intern, witness(request)[1])
            for refuter in refuters:
                refuter(request, literals.append)
            return tuple({id(each): each for each in literals}.values()) if several else tuple(literals)

        return certify
