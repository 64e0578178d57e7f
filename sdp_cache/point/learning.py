"""Cooperative caching: learning from signed decisions that others asked for, each verified here.

Invariant: whatever reaches the caches was signed, lately and in this domain, by a decider whose authority
covers its object. So the caches hold what a PDP decided, as if it had been asked from here; who asked, and
who passed it on, does not matter. Epochs do the rest: what was decided under any other than the current one
is not learned.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence

from authz import InvalidRequest, PublicKey
from authz.authority import Decider, Deciders, Statement
from authz.errors import InvalidSignature
from bus.wire import SharedDecision, SharedDecisions, Topic
from sdp_cache.point.secondary_point import SecondaryPoint

FRESH_SECONDS = 30.0
"""How old a statement may be, or how far ahead its signer's clock: an old one may be of a store that is no more."""
STATEMENTS_KEPT = 1024


class Refusal(enum.StrEnum):
    """Why something that was taught is not learned."""

    FOREIGN = "foreign"
    """It is of another domain, or nobody asked for it here."""
    OLD = "old"
    UNKNOWN = "unknown"
    """Its signer has not introduced itself, or its authority has ended."""
    FORGED = "forged"
    OUTSIDE = "outside"
    """Its signer may not decide that."""
    INVALID = "invalid"


class Learner:
    """Teaches a secondary point what others were answered."""

    def __init__(
        self, point: SecondaryPoint, deciders: Deciders, domain: str, topics: Sequence[Topic]
    ) -> None:
        self._point = point
        self._deciders = deciders
        self._domain = domain
        self._topics = topics
        self._verified: dict[Statement, None] = {}
        self.learned = 0
        """How many decisions were handed to the caches."""
        self.refused: Counter[Refusal] = Counter()

    def hear(self, lesson: SharedDecisions, now: float) -> None:
        """Learn what may be learned from a lesson; the rest is counted."""
        decider = self._signer(lesson.statement, now)
        if isinstance(decider, Refusal):
            self.refused[decider] += len(lesson.decisions)
            return
        for taught in lesson.decisions:
            refusal = self._refusal(decider, lesson.statement, taught, now)
            if refusal is not None:
                self.refused[refusal] += 1
                continue
            self.learned += 1
            decision = taught.decision
            self._point.learn(
                taught.request, decision, decision.epoch, _reference(lesson.statement, taught.index)
            )

    def _signer(self, statement: Statement, now: float) -> Decider | Refusal:
        """Who signed it; or why it does not count. The signature comes last, for it costs most."""
        if statement.domain != self._domain:
            return Refusal.FOREIGN
        if not abs(now - statement.at) <= FRESH_SECONDS:
            return Refusal.OLD
        decider = self._deciders.get(statement.signer, now)
        if decider is None:
            return Refusal.UNKNOWN
        return decider if self._is_signed(statement) else Refusal.FORGED

    def _is_signed(self, statement: Statement) -> bool:
        if statement in self._verified:
            return True
        try:
            statement.verify()
        except InvalidSignature:
            return False
        if len(self._verified) >= STATEMENTS_KEPT:
            del self._verified[next(iter(self._verified))]
        self._verified[statement] = None
        return True

    def _refusal(
        self, decider: Decider, statement: Statement, taught: SharedDecision, now: float
    ) -> Refusal | None:
        try:
            taught.request.validate()
            vouched = statement.vouches(taught.request, taught.decision, taught.index, taught.proof)
        except (InvalidRequest, ValueError, OverflowError, RecursionError):
            return Refusal.INVALID
        if not vouched:
            return Refusal.FORGED
        if not any(topic.holds(taught.request) for topic in self._topics):
            return Refusal.FOREIGN
        return None if decider.may_decide(taught.request, now) else Refusal.OUTSIDE


def _reference(statement: Statement, index: int) -> str:
    """How an inferred decision names a signed answer: by whom, in which statement, and where in it."""
    return f"{PublicKey(statement.signer)}/{statement.root.hex()[:16]}/{index}"
