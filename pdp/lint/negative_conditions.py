"""Allow policies whose negative conditions mean something else than in py-abac.

A condition such as `IsNotIn`, `NotEqualsAttribute` or `Not` is false in an allow of what is missing or of another type;
py-abac takes most of them to be true there. A deny means what it does in py-abac: for it that is the safe side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from authz.predicate import And, Exists, Not, Or, Path, Predicate, paths, satisfiable
from pdp.abac import Policy, read_policy
from pdp.bundle import PolicySet

_NEGATIVE = b"Not"
"""Part of the name of every condition that may mean something else; only where it stands a policy is read again."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a policy would apply in py-abac, and does not here."""

    policy: Policy
    about: tuple[Path, ...]
    """What its negative conditions compare."""


def gaps(policies: PolicySet) -> Iterator[Gap]:
    """Every attribute policy that means something else than in py-abac."""
    for written in policies.written():
        if _NEGATIVE not in _encode(written.get("rules")):
            continue
        ours, theirs = read_policy(written), read_policy(written, as_py_abac=True).condition
        if theirs != ours.condition and satisfiable(And((theirs, Not(ours.condition)))):
            yield Gap(ours, tuple(dict.fromkeys(_negated(theirs))))


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
