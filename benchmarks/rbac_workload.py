"""The RBAC workload: 100 roles, 3,000 subjects, 1,000 objects, and requests as uneven as real ones."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from authz import Basis, Decision, Entity, Reason, Request
from authz.change import ROLES
from authz.predicate import Certificate, Equal, Literal, Overlaps, Path

ACTIONS = ("read", "write", "share", "delete")


@dataclass(frozen=True, slots=True)
class RbacWorkload:
    """Who has which roles, which roles hold which permission, and how often each is asked about."""

    subjects: Sequence[Entity]
    objects: Sequence[Entity]
    holders: dict[tuple[str, str], tuple[str, ...]]
    subject_weights: Sequence[float]
    object_weights: Sequence[float]

    @classmethod
    def generate(
        cls, seed: int, roles: int = 100, subjects: int = 3_000, objects: int = 1_000
    ) -> RbacWorkload:
        """Each subject has one to six roles, each permission one to six holders; ranks follow Zipf's law."""
        chance = random.Random(seed)
        names = [f"role{n}" for n in range(roles)]

        def some() -> list[str]:
            return sorted(chance.sample(names, chance.randint(1, 6)))

        objects_ = [f"/object/{n}" for n in range(objects)]
        return cls(
            [Entity(f"user{n}", {"roles": some()}) for n in range(subjects)],
            [Entity(name) for name in objects_],
            {(name, action): tuple(some()) for name in objects_ for action in ACTIONS},
            _zipf(subjects),
            _zipf(objects),
        )

    def requests(self, count: int, seed: int) -> list[Request]:
        """Subject and object each by its own popularity, any action; half of what would be refused is not asked."""
        chance = random.Random(seed)
        asked: list[Request] = []
        while len(asked) < count:
            subject = self.subjects[bisect(self.subject_weights, chance.random() * self.subject_weights[-1])]
            object_ = self.objects[bisect(self.object_weights, chance.random() * self.object_weights[-1])]
            request = Request(subject, object_, Entity(chance.choice(ACTIONS)))
            if self.decide(request).allowed or chance.random() < 0.5:
                asked.append(request)
        return asked

    def decide(self, request: Request) -> Decision:
        """What a PDP answers: the effect, that roles alone decide, and the facts that imply it."""
        object_, action = request.object.id, request.action.id
        holders = self.holders[object_, action]
        roles = request.subject.attributes["roles"]
        assert isinstance(roles, list)
        held = next((role for role in holders if role in roles), None)
        facts = Literal(Overlaps(ROLES, (held,))) if held else Literal(Overlaps(ROLES, holders), holds=False)
        certificate: Certificate = (
            Literal(Equal(Path("object"), object_)),
            Literal(Equal(Path("action"), action)),
            facts,
        )
        if held:
            return Decision(
                True, policies=(f"{held} may {action}",), certificate=certificate, basis=Basis.ROLES
            )
        return Decision(False, Reason.NO_POLICY, certificate=certificate, basis=Basis.ROLES)


def _zipf(count: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, count + 1)))
