"""What a change of policies may alter: from two policy sets to the effects that caches go by.

The promise is that of authz.change: about a request that lies in the `where` of no effect, the same things decide
after the change as before. Where that cannot be said in few words, the whole is said to have changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from authz.change import ROLES, Effect, Touched
from authz.predicate import widen
from authz.predicate.widening import attributes
from pdp.abac import Policy, grants_to_roles
from pdp.bundle import PolicySet
from pdp.labels import label_effects, labels_restructured
from pdp.oasis import Rulebook, hierarchy, role_effects, seniorities_differ

MOST_EFFECTS = 512
MOST_BYTES = 128 * 1024
"""Maximum bytes of a list of effects; instead of a longer one, caches forget everything."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What distinguishes two policy sets: policies by id, and what follows for requests."""

    added: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    whole: bool = False
    hierarchy: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The role hierarchy of the later one."""
    rearranged: bool = False

    @classmethod
    def between(cls, old: PolicySet | None, new: PolicySet) -> Difference:
        """From the policies that were in force, None if that is not known, to those that will be."""
        before, after = _named(old or PolicySet()), _named(new)
        added = tuple(name for name in after if name not in before)
        altered = tuple(name for name in after if name in before and before[name] != after[name])
        removed = tuple(name for name in before if name not in after)
        effects = () if old is None else _distinct(_effects(old, new))
        whole = old is None or _bears_on_everything(old, new) or _too_much(effects)
        now = _hierarchy(new)
        rearranged = old is None or _hierarchy(old) != now
        return cls(added, altered, removed, () if whole else effects, whole, now, rearranged)

    @property
    def nothing(self) -> bool:
        """Whether every request is decided as before, by the same policies."""
        return not self.effects and not self.whole

    def __str__(self) -> str:
        counts = (("added", self.added), ("altered", self.altered), ("removed", self.removed))
        said = ", ".join(f"{len(names)} {word}" for word, names in counts if names)
        return said or ("how policies are combined changes" if self.whole else "nothing changes")


def obliging(old: PolicySet, new: PolicySet) -> tuple[str, ...]:
    """Policies with obligations, rules among them, that were added, altered or removed.

    Where they apply, enforcers have something else to do, even if the same is allowed as before.
    """
    before, after = ({each.id: each for each in several.every_policy} for several in (old, new))
    return tuple(
        name
        for name in {**before, **after}
        if (forms := [each for each in (before.get(name), after.get(name)) if each is not None])
        and any(each.obligations for each in forms)
        and (len(forms) == 1 or _differ(*forms))
    )


def _named(policies: PolicySet) -> dict[str, object]:
    """Everything that somebody wrote and that can decide, with all of it that bears on a decision."""
    named: dict[str, object] = {each.id: (*_said(each), each.condition) for each in policies.every_policy}
    if policies.roles is not None:
        named |= {rule.name: rule for rule in policies.roles.everything().authorisations}
    for name, labels in policies.labels.items():
        tables = (dict(labels.subjects.table), dict(labels.objects.table))
        named[name] = (labels.lattice, dict(labels.actions), labels.permits, tables)
    return {name: named[name] for name in policies.names}


def _effects(old: PolicySet, new: PolicySet) -> Iterator[Effect]:
    hidden = old.provided | new.provided
    unseen = attributes(hidden)
    before, after = ({each.id: each for each in several.every_policy} for several in (old, new))
    for name in (*before, *after):
        forms = [each for each in (before.get(name), after.get(name)) if each is not None]
        if len(forms) == 1 or _differ(*forms):
            yield from (Touched(widen(each.condition, unseen)) for each in forms)
    # Where attribute policies grant to roles too, what a role loses by one rule it may have by another.
    listed = ROLES not in hidden and not any(map(grants_to_roles, (*old.policies, *new.policies)))
    yield from role_effects(_rulebook(old), _rulebook(new), listed)
    if not labels_restructured(old.labels, new.labels):
        yield from label_effects(old.labels, new.labels)


def _distinct(effects: Iterator[Effect]) -> tuple[Effect, ...]:
    """The effects; of too many only as many as show that."""
    found: dict[Effect, None] = {}
    for each in effects:
        found[each] = None
        if len(found) > MOST_EFFECTS:
            break
    return tuple(found)


def _bears_on_everything(old: PolicySet, new: PolicySet) -> bool:
    """How policies combine, which attributes count as sent, how labels compare, and which roles imply others."""
    return (
        old.manifest.algorithm is not new.manifest.algorithm
        or old.provided != new.provided
        or labels_restructured(old.labels, new.labels)
        or seniorities_differ(_rulebook(old), _rulebook(new))
    )


def _differ(one: Policy, other: Policy) -> bool:
    """Whether two forms of a policy may decide differently; what it is described as does not matter."""
    return _said(one) != _said(other) or one.condition != other.condition


def _said(policy: Policy) -> tuple[object, ...]:
    return policy.effect, policy.priority, policy.obligations


def _rulebook(policies: PolicySet) -> Rulebook:
    return policies.roles.everything() if policies.roles is not None else Rulebook()


def _hierarchy(policies: PolicySet) -> dict[str, tuple[str, ...]]:
    return hierarchy(_rulebook(policies))


def _too_much(effects: tuple[Effect, ...]) -> bool:
    return len(effects) > MOST_EFFECTS or len(msgspec.msgpack.encode(effects)) > MOST_BYTES
