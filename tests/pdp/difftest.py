"""Compare engine, reference and py-abac on random policies and requests: `python -m tests.pdp.difftest 200000`.

Negative conditions mean something else in py-abac: where what they compare is missing or of another type, they are
often true there and always false here. So policies are read twice: as py-abac reads them, which the reference must then
decide as py-abac does; and as they count here, which engine and reference must decide alike. And whatever applies here
applies there: the difference is that one only.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from authz import Decision, Request
from authz.decision import Effect
from pdp.abac import Algorithm, read_policy, reference
from pdp.abac.oracle import Oracle
from pdp.abac.source import AbacSource
from pdp.engine.engine import Engine
from tests.pdp.cases import Cases

PER_SET = 60
"""Requests asked of each set of policies: py-abac takes longer to load policies than to decide by them."""


@dataclass
class Tally:
    """What was compared."""

    requests: int = 0
    sets: int = 0
    policies: int = 0
    differences: int = 0
    """Requests that negative conditions decide otherwise than in py-abac."""
    algorithms: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    conditions: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"compared {self.requests:,} requests, {self.policies:,} policies in {self.sets:,} sets"]
        lines.append(f"negative conditions decide {self.differences:,} otherwise than in py-abac")
        for name in ("algorithms", "outcomes", "conditions"):
            counts = sorted(getattr(self, name).items())
            lines.append(f"{name}: " + ", ".join(f"{kind} {count:,}" for kind, count in counts))
        return "\n".join(lines)


class Disagreement(Exception):
    """One request on which the three do not agree, with everything needed to see why."""

    def __init__(self, policies: object, algorithm: Algorithm, request: Request, answers: object) -> None:
        super().__init__(f"{answers}\nalgorithm: {algorithm}\nrequest: {request!r}\npolicies: {policies}")


def compare(count: int, first_seed: int = 0) -> Tally:
    """Compare at least so many requests. Raises Disagreement at the first difference."""
    tally, seed = Tally(), first_seed
    while tally.requests < count:
        algorithm = list(Algorithm)[seed % 3]
        # Every tenth set is large enough that the index has something to divide.
        cases = Cases(seed)
        policies = cases.policies(most=60 if seed % 10 == 0 else 12)
        compare_set(policies, algorithm, list(cases.requests(min(PER_SET, count - tally.requests))), tally)
        tally.conditions.update(cases.kinds)
        seed += 1
    return tally


def compare_set(
    policies: list[dict[str, object]], algorithm: Algorithm, requests: list[Request], tally: Tally
) -> None:
    read = [read_policy(each) for each in policies]
    theirs = [read_policy(each, as_py_abac=True) for each in policies]
    oracle, slow = Oracle(policies, algorithm), reference.Reference(read, algorithm)
    modelled = reference.Reference(theirs, algorithm)
    engine = Engine([AbacSource(read, algorithm)])
    for request in requests:
        fast, specified = engine.evaluate(request), reference.decide([slow], request)
        there, allowed = reference.decide([modelled], request), oracle.allows(request)
        unsafe = [
            one.id
            for one, other in zip(read, theirs, strict=True)
            if (applies := reference.applies(one, request)) is not reference.applies(other, request)
            and applies is (one.effect is Effect.ALLOW)  # an allow of more, or a deny of less
        ]
        if there.allowed is not allowed or not _alike(fast, specified) or unsafe:
            answers = (
                f"engine: {fast}\nreference: {specified}\nas py-abac reads it: {there}\n"
                f"py-abac: {'allow' if allowed else 'deny'}\nless safe here: {unsafe}"
            )
            raise Disagreement(policies, algorithm, request, answers)
        tally.outcomes[specified.effect if specified.policies else "no policy"] += 1
        tally.differences += specified.allowed is not allowed
    tally.requests += len(requests)
    tally.policies += len(policies)
    tally.sets += 1
    tally.algorithms[algorithm] += len(requests)


def _alike(one: Decision, other: Decision) -> bool:
    return (
        one.allowed is other.allowed
        and one.reason is other.reason
        and sorted(one.policies) == sorted(other.policies)
    )


if __name__ == "__main__":
    print(compare(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
    print("engine, reference and py-abac agree on every one, but for negative conditions")
