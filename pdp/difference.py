"""What a change of policies may alter: from two policy sets to the effects that caches go by.

The promise is that of authz.change: about a request that lies in the `where` of no effect, the same things decide
after the change as before. Where that cannot be said in few words, the whole is said to have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from authz.change import Effect, Touched
from authz.predicate import FALSE, TRUE, And, Comparison, Not, Or, Path, Predicate, Relate
from pdp.abac.policy import Policy
from pdp.policy_set import PolicySet

MOST_EFFECTS = 512
MOST_BYTES = 128 * 1024
"""Beyond so much, caches are told to forget everything instead."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What distinguishes two policy sets: policies by id, and what follows for requests."""

    added: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    whole: bool = False

    @classmethod
    def between(cls, old: PolicySet | None, new: PolicySet) -> Difference:
        """From the policies that were in force, None if that is not known, to those that will be."""
        if old is None:
            return cls(added=tuple(each.id for each in new.policies), whole=True)
        before = {each.id: each for each in old.policies}
        after = {each.id: each for each in new.policies}
        altered = tuple(name for name in after if name in before and _differ(before[name], after[name]))
        added = tuple(name for name in after if name not in before)
        removed = tuple(name for name in before if name not in after)
        changed = [before[name] for name in (*removed, *altered)] + [
            after[name] for name in (*added, *altered)
        ]
        hidden = old.manifest.provided_paths | new.manifest.provided_paths
        effects = tuple(dict.fromkeys(_touched(changed, hidden)))
        # Which attributes count as sent, and how policies combine, bears on everything.
        whole = (
            old.manifest.algorithm is not new.manifest.algorithm
            or old.manifest.provided_paths != new.manifest.provided_paths
            or _too_much(effects)
        )
        return cls(added, altered, removed, () if whole else effects, whole)

    @property
    def nothing(self) -> bool:
        """Whether every request is decided as before, by the same policies."""
        return not self.effects and not self.whole

    def __str__(self) -> str:
        counts = (("added", self.added), ("altered", self.altered), ("removed", self.removed))
        said = ", ".join(f"{len(names)} {word}" for word, names in counts if names)
        return said or ("how policies are combined changes" if self.whole else "nothing changes")


def widen(predicate: Predicate, hidden: Iterable[Path], holds: bool = True) -> Predicate:
    """A predicate without comparisons of hidden attributes, true at least wherever this one may be.

    With `holds` false: true at most where this one must be.
    """
    match predicate:
        case And(terms):
            return And(tuple(widen(each, hidden, holds) for each in terms))
        case Or(terms):
            return Or(tuple(widen(each, hidden, holds) for each in terms))
        case Not(term):
            return Not(widen(term, hidden, not holds))
    if any(_looks_at(predicate, each) for each in hidden):
        return TRUE if holds else FALSE
    return predicate


def _looks_at(test: Comparison, hidden: Path) -> bool:
    paths = (test.path, test.other) if isinstance(test, Relate) else (test.path,)
    return any(each.root == hidden.root and each.keys[:1] == hidden.keys for each in paths)


def _differ(one: Policy, other: Policy) -> bool:
    """Whether two forms of a policy may decide differently; what it is described as does not matter."""
    return (one.effect, one.priority) != (other.effect, other.priority) or one.condition != other.condition


def _touched(policies: Iterable[Policy], hidden: frozenset[Path]) -> Iterator[Touched]:
    for policy in policies:
        yield Touched(widen(policy.condition, hidden) if hidden else policy.condition)


def _too_much(effects: tuple[Effect, ...]) -> bool:
    return len(effects) > MOST_EFFECTS or len(msgspec.msgpack.encode(effects)) > MOST_BYTES
