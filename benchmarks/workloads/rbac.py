"""The RBAC workload: 100 roles, 3,000 subjects, 1,000 objects, and requests as uneven as real ones.

The answers are those of the engine a replica runs, from role rules as anyone would write them.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from authz import Entity, Request
from pdp.bundle import Bundle, File, PolicySet
from pdp.engine import Engine

ACTIONS = ("read", "write", "share", "delete")


@dataclass(frozen=True, slots=True)
class RbacWorkload:
    """Who has which roles, what decides, and how often each subject and object is asked about."""

    subjects: Sequence[Entity]
    objects: Sequence[Entity]
    engine: Engine
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

        people = [Entity(f"user{n}", {"roles": some()}) for n in range(subjects)]
        places = [Entity(f"/object/{n}") for n in range(objects)]
        rules = [f"|- {name}" for name in names] + [
            f'{role} |- privilege({action}, "{place.id}")'
            for place in places
            for action in ACTIONS
            for role in some()
        ]
        bundle = Bundle.of([File("workload.oasis", "\n".join(rules))])
        engine = PolicySet.read(bundle).engine(certify=True)
        return cls(people, places, engine, _zipf(subjects), _zipf(objects))

    def requests(self, count: int, seed: int) -> list[Request]:
        """Subject and object each by its own popularity, any action; half of what would be refused is not asked."""
        chance = random.Random(seed)
        asked: list[Request] = []
        while len(asked) < count:
            subject = self.subjects[bisect(self.subject_weights, chance.random() * self.subject_weights[-1])]
            object_ = self.objects[bisect(self.object_weights, chance.random() * self.object_weights[-1])]
            request = Request(subject, object_, Entity(chance.choice(ACTIONS)))
            if self.engine.evaluate(request).allowed or chance.random() < 0.5:
                asked.append(request)
        return asked


def _zipf(count: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, count + 1)))
