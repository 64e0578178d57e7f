"""Decision certificates: a few literals over a request that imply its effect, whoever asks.

The literals make one determining policy apply, and keep every rival, a policy that would change the effect,
from applying. Rivals may be many, so they are filed by their guards: one literal excludes all that the
request does not reach in a dimension, and only those it reaches are refuted singly, by a greedy cover. What
the determining policy's own literals exclude is found out once, and kept as a plan. Invariant: whatever a
certificate holds of, the determining policy applies to, and no rival does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from authz.predicate import REQUEST, Certificate, Literal, Predicate, consistent
from authz.predicate.reasoning import Witness, compile_witness
from authz.request import Request
from pdp.engine.exclusion import Conditions, Filing, exclusions, reduced
from pdp.engine.refute import Refuter, TooManyRivals, compile_refuter, demands

Plan: TypeAlias = Callable[[Request], Certificate | None]
"""The certificate for a request where the determining condition holds and no rival's does, if there is one."""

MOST = 64
"""Maximum rivals refuted for a request, and maximum literals; beyond, there is no certificate."""


def _no_certificate(request: Request) -> None:
    """The plan where there are too many rivals."""


class Certifier:
    """Certificates against one set of rivals."""

    def __init__(self, rivals: Filing, conditions: Conditions) -> None:
        self._literals: dict[Literal, Literal] = {}
        self._exclusions = exclusions(rivals, conditions, self._intern)
        self._unfiled = [conditions(number) for number in rivals.unfiled]

    def _intern(self, literal: Literal) -> Literal:
        return self._literals.setdefault(literal, literal)

    def plan(self, determining: Predicate) -> Plan:
        """How requests are certified to which this condition is the reason."""
        literals, others = demands(determining)
        known = tuple(dict.fromkeys(map(self._intern, literals)))
        refuters: list[Refuter] = []
        single = list(self._unfiled)
        for each in self._exclusions:
            left, reached = reduced(each, known)
            single += reached
            if left is not None:
                refuters.append(left.exclude)
        if len(single) > MOST:
            return _no_certificate
        single = [each for each in single if consistent((*known, *demands(each)[0]))]
        repeats = bool(others) or len(refuters) + bool(known) > 1 or bool(refuters and single)
        if single:
            refuters.append(compile_refuter(single, self._intern))
        witnesses = [compile_witness(each, REQUEST) for each in others]
        return _follow(known, witnesses, refuters, repeats)


def _follow(
    known: Certificate, witnesses: list[Witness[Request]], refuters: list[Refuter], repeats: bool
) -> Plan:
    if not witnesses and not refuters:
        return lambda request: known

    def certify(request: Request) -> Certificate | None:
        literals = list(known)
        try:
            for witness in witnesses:
                literals += witness(request)[1]
            for refuter in refuters:
                refuter(request, literals.append)
        except TooManyRivals:
            return None
        certificate = tuple({id(each): each for each in literals}.values()) if repeats else tuple(literals)
        return certificate if len(certificate) <= MOST else None

    return certify
