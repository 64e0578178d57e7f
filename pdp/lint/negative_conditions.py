"""Policies whose negative conditions mean something else than in py-abac.

Of what is missing or of another type, a condition such as `IsNotIn`, `NotEquals` or `Not` is false in an allow and true
in a deny. In py-abac some of them are true there and some are false, whatever the effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from authz.decision import Effect
from authz.predicate import And, Exists, Not, Or, Path, Predicate, paths, satisfiable
from pdp.abac import Policy, read_policy
from pdp.bundle import PolicySet

_NEGATIVE = (b"Not", b"Neq")
"""Parts of the names of conditions that may mean something else. Only policies with one of them are read again."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Gap:
    """A policy that applies to other requests than in py-abac: an allow to fewer, a deny to more."""

    policy: Policy
    about: tuple[Path, ...]
    """What its negative conditions compare."""


def gaps(policies: PolicySet) -> Iterator[Gap]:
    """Every attribute policy that means something else than in py-abac."""
    for written in policies.written():
        rules = _encode(written.get("rules"))
        if not any(name in rules for name in _NEGATIVE):
            continue
        ours, theirs = read_policy(written), read_policy(written, as_py_abac=True).condition
        less, more = (ours.condition, theirs) if ours.effect is Effect.ALLOW else (theirs, ours.condition)
        if less != more and satisfiable(And((more, Not(less)))):
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
