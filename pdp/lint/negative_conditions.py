"""Allow policies whose negative conditions mean something else than in py-abac.

A condition such as `IsNotIn`, `NotEqualsAttribute` or `Not` is false in an allow of what is missing or of another type;
py-abac takes most of them to be true there. A deny means what it does in py-abac: for it that is the safe side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from authz.predicate import And, Exists, Not, Or, Path, Predicate, paths, satisfiable
from pdp.abac import Policy, read_policies
from pdp.bundle import PolicySet


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a policy would apply in py-abac, and does not here."""

    policy: Policy
    about: tuple[Path, ...]
    """What its negative conditions compare."""


def gaps(policies: PolicySet) -> Iterator[Gap]:
    """Every attribute policy that means something else than in py-abac."""
    theirs, ours = (_read(policies, as_py_abac) for as_py_abac in (True, False))
    for policy in policies.policies:
        gap = And((theirs[policy.id], Not(ours[policy.id])))
        if theirs[policy.id] != ours[policy.id] and satisfiable(gap):
            yield Gap(policy, tuple(dict.fromkeys(_negated(theirs[policy.id]))))


def _read(policies: PolicySet, as_py_abac: bool) -> dict[str, Predicate]:
    files = {each.path: each for each in policies.files.values()}.values()
    return {
        policy.id: policy.condition
        for file in files
        for policy in read_policies(file.text, file.path, as_py_abac)
    }


def _negated(predicate: Predicate, holds: bool = True) -> Iterator[Path]:
    """The attributes in comparisons that must not hold."""
    match predicate:
        case And(terms) | Or(terms):
            for term in terms:
                yield from _negated(term, holds)
        case Not(term):
            yield from _negated(term, not holds)
        case Exists():
            pass
        case _:
            yield from (path for path in paths(predicate) if not holds and path.keys)
