"""Compare what caches infer with the reference, on random policies through random changes.

`python -m tests.sdp_cache.difftest 300000`
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass, field

from authz import Decision, Request
from authz.change import ROLES, PolicyChange
from pdp.abac import reference
from pdp.attributes.enrichment import Enriched, Enricher
from pdp.bundle.policy_set import PolicySet
from pdp.engine.engine import Engine
from pdp.engine.source import PolicySource
from pdp.lint.difference import Difference
from sdp_cache.point.cache_sizes import Recycling
from sdp_cache.point.recycler import Recycler
from tests.sdp_cache.worlds import World

PER_WORLD = 400
RECYCLINGS = [
    Recycling(),
    Recycling(precise=0),
    Recycling(precise=0, certificates=0),
    Recycling(precise=0, certificates=0, saam_rbac=0),
    Recycling(precise=5, saam_rbac=3, saam_blp=6, certificates=8),
]


@dataclass
class Tally:
    """What was compared."""

    asked: int = 0
    worlds: int = 0
    changes: int = 0
    inferred: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"asked {self.asked:,} times in {self.worlds:,} worlds, through {self.changes:,} changes"]
        for name in ("inferred", "effects"):
            counts = sorted(getattr(self, name).items())
            lines.append(f"{name}: " + ", ".join(f"{kind} {count:,}" for kind, count in counts))
        return "\n".join(lines)


class WrongInference(Exception):
    """One request that was answered otherwise than by the reference, with everything needed to see why."""

    def __init__(self, seed: int, request: Request, inferred: Decision, right: Decision) -> None:
        super().__init__(f"seed {seed}\n{request!r}\ninferred: {inferred!r}\nreference: {right!r}")


class Trial:
    """One world with the caches of one SDP, at one epoch after the other."""

    def __init__(
        self, seed: int, tally: Tally, kinds: str, looked_up: bool | None, recycling: Recycling | None
    ) -> None:
        self._seed = seed
        self._tally = tally
        self._chance = random.Random(seed)
        self._world = World(seed, kinds, looked_up)
        self._recycler = Recycler(recycling or self._chance.choice(RECYCLINGS))
        self._recycler.restart(0, Difference.between(None, self._world.policies).hierarchy)
        self._stand(self._world.policies, 0)

    def run(self, count: int) -> None:
        """Raises WrongInference."""
        for number in range(count):
            if self._chance.random() < 0.02:
                self._change()
            self._ask(self._world.request(), str(number), float(number))
        self._tally.asked += count
        self._tally.worlds += 1

    def _stand(self, policies: PolicySet, epoch: int) -> None:
        self._engine: Engine = policies.engine(epoch, certify=True)
        self._reference = specified(policies)
        self._enricher = Enricher(policies, ())

    def _change(self) -> None:
        before, epoch = self._world.policies, self._recycler.epoch
        after = self._world.change()
        found = Difference.between(before, after)
        juniors = found.hierarchy if found.rearranged else None
        self._recycler.apply(PolicyChange(epoch + 1, epoch, found.effects, found.whole, juniors))
        self._stand(after, epoch + 1)
        self._tally.changes += 1
        self._tally.effects.update(type(each).__name__ for each in found.effects)

    def _ask(self, request: Request, answer: str, now: float) -> None:
        """Where roles are looked up, time passes, and subjects have other roles from time to time."""
        seen, until = self._world.seen(request, now) if self._world.looked_up else (request, None)
        right = reference.decide(self._reference, seen, self._recycler.epoch)
        inferred = self._recycler.infer(request, now)
        if inferred is None:
            if self._chance.random() < 0.8:
                decision = self._engine.evaluate(seen)
                if until is not None:
                    decision = self._enricher.settle(Enriched(seen, {ROLES: until}), decision)
                self._recycler.learn(request, decision, self._recycler.epoch, answer)
            return
        if not _same(inferred, right):
            raise WrongInference(self._seed, request, inferred, right)
        if inferred.expires is not None and until is not None and inferred.expires > until:
            raise WrongInference(self._seed, request, inferred, right)
        assert inferred.inferred is not None
        how = " (roles looked up)" if until is not None else ""
        self._tally.inferred[f"{inferred.inferred.method} {inferred.effect}{how}"] += 1


def specified(policies: PolicySet) -> tuple[PolicySource, ...]:
    """What decides, attribute policies by the reference."""
    by_attributes = reference.Reference(policies.policies, policies.manifest.algorithm)
    return (by_attributes, *policies.sources()[1 if policies.policies else 0 :])


def _same(one: Decision, other: Decision) -> bool:
    """What must not differ: the effect, the epoch, and what is owed for being let through."""
    owed = not one.allowed or one.obligations == other.obligations
    return (one.allowed, one.epoch) == (other.allowed, other.epoch) and owed


def compare(
    count: int,
    first_seed: int = 0,
    kinds: str = "",
    looked_up: bool | None = None,
    recycling: Recycling | None = None,
) -> Tally:
    """Ask at least so many times, in worlds of these kinds if any. Raises WrongInference at the first difference."""
    tally, seed = Tally(), first_seed
    while tally.asked < count:
        Trial(seed, tally, kinds, looked_up, recycling).run(PER_WORLD)
        seed += 1
    return tally


if __name__ == "__main__":
    print(compare(*map(int, sys.argv[1:])) if len(sys.argv) > 1 else compare(10_000))
    print("no inferred answer differs from what the reference says under the epoch it names")
