"""Small worlds in which every answer can be computed by brute force, to compare what caches infer with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from authz import Basis, Decision, Entity, Reason, Request
from authz.predicate import And, Literal, Not, Or, Predicate, compile_predicate

ROLES = ["a", "b", "c", "d", "e"]
OBJECTS = ["/o1", "/o2"]
ACTIONS = ["read", "write"]


def asking(roles: Iterable[str], object_: str = "/o1", action: str = "read", subject: str = "s") -> Request:
    return Request.of(Entity(subject, {"roles": list(roles)}), object_, action)


def closed(roles: Iterable[str], juniors: dict[str, tuple[str, ...]]) -> frozenset[str]:
    """The roles and everything below them."""
    found = set(roles)
    while more := {junior for role in found for junior in juniors.get(role, ())} - found:
        found |= more
    return frozenset(found)


@dataclass
class RbacWorld:
    """Who holds which permission; a request is allowed if one of its roles, or of their juniors, does."""

    grants: set[tuple[str, str, str]] = field(default_factory=set)
    juniors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    epoch: int = 0

    def decide(self, request: Request) -> Decision:
        roles = closed(request.subject.attributes["roles"], self.juniors)
        allowed = any((role, request.object.id, request.action.id) in self.grants for role in roles)
        reason = Reason.POLICY if allowed else Reason.NO_POLICY
        return Decision(allowed, reason, epoch=self.epoch, basis=Basis.ROLES)

    def seniors(self, role: str) -> tuple[str, ...]:
        """The role and everything above it."""
        return tuple(each for each in {*ROLES, role} if role in closed([each], self.juniors))


SUBJECTS = ["s1", "s2", "s3"]


@dataclass
class BlpWorld:
    """Labels are sets: one dominates another if it contains it. Some permissions a matrix forbids as well."""

    subjects: dict[str, frozenset[int]]
    objects: dict[str, frozenset[int]]
    discretionary: frozenset[tuple[str, str]] = frozenset()
    """Objects and actions a matrix has a say about; it forbids them to `s1`."""
    epoch: int = 0

    def by_labels(self, request: Request) -> bool:
        subject, object_ = self.subjects[request.subject.id], self.objects[request.object.id]
        reads, alters = subject >= object_, object_ >= subject
        return {"read": reads, "append": alters, "write": reads and alters}[request.action.id]

    def decide(self, request: Request) -> Decision:
        labels = self.by_labels(request)
        matrix = (request.object.id, request.action.id) in self.discretionary
        allowed = labels and not (matrix and request.subject.id == "s1")
        basis = Basis.LABELS if not labels or not matrix else None
        return Decision(allowed, epoch=self.epoch, basis=basis)


@dataclass(frozen=True)
class Policy:
    id: str
    allows: bool
    applies: Predicate


@dataclass
class PolicyWorld:
    """Policies with any condition; a deny overrides, and without an allow it is a deny."""

    policies: dict[str, Policy] = field(default_factory=dict)
    epoch: int = 0

    def decide(self, request: Request) -> Decision:
        matching = [each for each in self.policies.values() if compile_predicate(each.applies)(request)]
        denying = [each for each in matching if not each.allows]
        allowed = bool(matching) and not denying
        reason = Reason.POLICY if matching else Reason.NO_POLICY
        certificate = self._certificate(request, matching, denying)
        determining = tuple(each.id for each in denying or matching)
        return Decision(allowed, reason, determining, epoch=self.epoch, certificate=certificate)

    def _certificate(
        self, request: Request, matching: list[Policy], denying: list[Policy]
    ) -> tuple[Literal, ...]:
        """Facts that imply the effect: of one policy that decides, and of each that must not apply."""
        if denying:
            return tuple(implicant(denying[0].applies, request))
        facts = list(implicant(matching[0].applies, request)) if matching else []
        for each in self.policies.values():
            if each.allows is not bool(matching):
                facts += implicant(each.applies, request)
        return tuple(dict.fromkeys(facts))


def implicant(predicate: Predicate, request: Request) -> Iterable[Literal]:
    """Facts of the request that fix the predicate's truth."""
    holds = compile_predicate(predicate)(request)
    if isinstance(predicate, Not):
        return implicant(predicate.term, request)
    if not isinstance(predicate, (And, Or)):
        return [Literal(predicate, holds)]
    if isinstance(predicate, And) is holds:
        return [fact for term in predicate.terms for fact in implicant(term, request)]
    return implicant(
        next(term for term in predicate.terms if compile_predicate(term)(request) is holds), request
    )
