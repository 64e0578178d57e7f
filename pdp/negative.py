"""Policies whose negative conditions mean something else than in py-abac, and denies that pass over what is missing.

A condition such as `IsNotIn`, `NotEqualsAttribute` or `Not` is false of what is missing or of another type; py-abac
takes most of them to be true there. For an allow that is the safe side. A deny does not deny there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from authz.predicate import And, Exists, Not, Or, Path, Predicate, covers, paths, satisfiable
from pdp.abac.policy import Policy
from pdp.abac.reader import read_policies
from pdp.policy_set import PolicySet
from pdp.source import Effect


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a policy would apply in py-abac, and does not here."""

    policy: Policy
    about: tuple[Path, ...]
    """What its negative conditions compare."""
    undenied: tuple[Path, ...] = ()
    """What a request may lack and escape this deny by, and every other."""


def gaps(policies: PolicySet) -> Iterator[Gap]:
    """Every attribute policy that means something else than in py-abac."""
    theirs, ours = (_read(policies, as_py_abac) for as_py_abac in (True, False))
    denies = _denies(policies)
    for policy in policies.policies:
        gap = And((theirs[policy.id], Not(ours[policy.id])))
        if theirs[policy.id] == ours[policy.id] or not satisfiable(gap):
            continue
        about = tuple(dict.fromkeys(_negated(theirs[policy.id])))
        undenied = (path for path in about if policy.effect is Effect.DENY and _escapes(gap, path, denies))
        yield Gap(policy, about, tuple(undenied))


def _read(policies: PolicySet, as_py_abac: bool) -> dict[str, Predicate]:
    files = {each.path: each for each in policies.files.values()}.values()
    return {
        policy.id: policy.condition
        for file in files
        for policy in read_policies(file.text, file.path, as_py_abac)
    }


def _denies(policies: PolicySet) -> Mapping[Path, list[Predicate]]:
    """The conditions of denies by what they look at."""
    found: defaultdict[Path, list[Predicate]] = defaultdict(list)
    for policy in policies.policies:
        if policy.effect is Effect.DENY:
            for path in set(paths(policy.condition)):
                found[path].append(policy.condition)
    return found


def _escapes(gap: Predicate, path: Path, denies: Mapping[Path, list[Predicate]]) -> bool:
    """Whether a request without this attribute may be in the gap, and no other deny applies there."""
    lacking = And((gap, Not(Exists(path))))
    return satisfiable(lacking) and not any(covers(deny, lacking) for deny in denies.get(path, ()))


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
