"""Whom decisions are about: the plan of the policies, and every subject and permission under it.

After a change most of that is known from the run before. A bit is evaluated anew only if its condition is new or the
entities have changed; and if the condition looks at nothing but names, not even the entities are read again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from msgspec import structs

from authz import Entity
from authz.predicate import TRUE, KindName, Path, Relate
from pdp.bundle import PolicySet
from spark_eval.entities.gathering import Gathered, InvalidEntities, column_of
from spark_eval.entities.input_warnings import oversights
from spark_eval.entities.mask_tasks import MaskWork
from spark_eval.entities.store import BundledEntities, Entities
from spark_eval.plans import (
    Bit,
    Masks,
    Part,
    Plan,
    Side,
    derivations,
    make_plan,
    meet,
    needs_roles,
    rules_of,
    width,
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What decisions are computed from."""

    policies: PolicySet
    subjects: Entities
    objects: Entities
    actions: tuple[Entity, ...]
    may_lack: tuple[str, ...] = ()
    """Attributes, written as `subject.dept`, that policies may look at though no entity has them."""
    ask_roles: bool = False
    """Whether nobody's roles are known in advance, whatever the entities say."""


class Marks(msgspec.Struct, frozen=True):
    """By what a later run recognises that something is as it was."""

    subjects: str = ""
    """The fingerprint of the entities; an empty one is like no other."""
    objects: str = ""
    roles: tuple[str, ...] | None = None
    """Those that any subject has; None if no policy needs to know."""
    subject_bits: tuple[str, ...] = ()
    permission_bits: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Population:
    """Everyone and everything under a plan."""

    plan: Plan
    subjects: Gathered
    permissions: Gathered
    """The names of the objects; each has as many masks as there are actions."""
    actions: tuple[str, ...]
    marks: Marks
    warnings: tuple[str, ...] = ()
    """What is probably a mistake in what was asked."""

    @property
    def decisions(self) -> int:
        return self.subjects.side.rows * self.permissions.side.rows


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a population from an earlier run."""

    subjects: Gathered
    permissions: Gathered
    marks: Marks


def populate(inputs: Inputs, before: Before | None = None) -> Population:
    """Evaluate the policies over all entities, as far as that was not done `before`."""
    known = before.marks if before is not None else Marks()
    people, things = _fingerprints(inputs)
    roles = _roles(inputs, known.roles if people and people == known.subjects else None)
    plan = make_plan(rules_of(inputs.policies, roles or (), inputs.ask_roles))
    marks = _marks(people, things, roles, plan)
    reusable = known.joins == marks.joins  # what they compare is kept all together
    same_people = reusable and people and people == known.subjects
    same_things = reusable and things and things == known.objects
    subjects, objects = _readings(inputs, plan, marks)
    population = Population(
        plan,
        subjects.read(before.subjects if before else None, known.subject_bits if same_people else None),
        objects.read(before.permissions if before else None, known.permission_bits if same_things else None),
        tuple(each.id for each in inputs.actions),
        marks,
    )
    check_joins(inputs, plan, population.subjects, population.permissions)
    warnings = oversights((subjects.work, objects.work), population.permissions, inputs.may_lack)
    return replace(population, warnings=warnings)


def attribute_types(policies: PolicySet) -> dict[Path, KindName]:
    """The types that the manifest gives to attributes."""
    listed = policies.manifest.attributes or {}
    return {
        Path(root, (name,)): kind
        for root, names in listed.items()
        for name, kind in names.items()
        if kind != "any"
    }


def _fingerprints(inputs: Inputs) -> tuple[str, str]:
    """Those of the subjects, and of the objects with the actions."""
    things = inputs.objects.fingerprint()
    return inputs.subjects.fingerprint(), things and f"{things}-{_digest(inputs.actions)}"


def _roles(inputs: Inputs, known: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The roles that any subject has, if policies need to know; those `known` from before need not be read again."""
    if known is None and needs_roles(inputs.policies) and not inputs.ask_roles:
        return tuple(sorted(inputs.subjects.roles()))
    return known


def _marks(people: str, things: str, roles: tuple[str, ...] | None, plan: Plan) -> Marks:
    return Marks(
        people,
        things,
        roles,
        tuple(_digest(bit.clause.subject) for bit in plan.bits),
        tuple(_digest(bit.clause.permission) for bit in plan.bits),
        tuple(_digest(join) for join in plan.joins),
    )


def _readings(inputs: Inputs, plan: Plan, marks: Marks) -> tuple[_Reading, _Reading]:
    """How subjects and permissions are evaluated."""
    derived, types = derivations(inputs.policies), attribute_types(inputs.policies)
    subjects = MaskWork(plan, Part.SUBJECT, derivations=derived, types=types)
    objects = MaskWork(plan, Part.PERMISSION, derivations=derived, actions=inputs.actions, types=types)
    return (
        _Reading(subjects, inputs.subjects, inputs.may_lack, marks.subject_bits),
        _Reading(objects, inputs.objects, inputs.may_lack, marks.permission_bits),
    )


def check_joins(inputs: Inputs, plan: Plan, subjects: Gathered, objects: Gathered) -> None:
    """Raise InvalidEntities if policies ask for equal values, and no subject has one that an object has."""
    for number, join in enumerate(plan.joins):
        if not isinstance(join, Relate) or join.op != "==" or not join.path.keys or not join.other.keys:
            continue
        if {str(join.path), str(join.other)} & set(inputs.may_lack):
            continue
        if not meet(subjects.side.keys[number].values, objects.side.keys[number].values):
            ours, theirs = sorted((join.path, join.other), key=lambda path: path.root, reverse=True)
            policy = next(bit.policies[0] for bit in plan.bits if bit.clause.join == join)
            raise InvalidEntities(
                inputs.subjects.source,
                len(subjects.names),
                f"no value is also in column `{column_of(theirs)}` of `{inputs.objects.source}`"
                f" ({len(objects.names):,} rows), so the policy `{policy}` would never apply",
                column_of(ours),
            )


@dataclass(frozen=True, slots=True)
class _Reading:
    """One side to be evaluated."""

    work: MaskWork
    entities: Entities
    may_lack: tuple[str, ...]
    bits: tuple[str, ...]

    def read(self, before: Gathered | None, known: tuple[str, ...] | None) -> Gathered:
        """All of it, or what is not among the bits `known` from before; names keep the places they had."""
        if before is None:
            return self.entities.masks(self.work, self.may_lack)
        if known is None:
            return _in_order(self.entities.masks(self.work, self.may_lack), before.names)
        if known == self.bits:
            return before
        return self._again(before, {mark: bit for bit, mark in enumerate(known)})

    def _again(self, before: Gathered, known: dict[str, int]) -> Gathered:
        new = [bit for bit, mark in enumerate(self.bits) if mark not in known]
        evaluated = self._evaluate([self.work.plan.bits[bit] for bit in new], before.names)
        masks = np.zeros((width(len(self.bits)), before.side.rows), np.uint8)
        for bit, mark in enumerate(self.bits):
            held = (
                _column(before.side.masks, known[mark])
                if mark in known
                else _column(evaluated, new.index(bit))
            )
            masks[bit >> 3] |= held << (bit & 7)
        return Gathered(before.names, Side(np.ascontiguousarray(masks.T), before.side.keys))

    def _evaluate(self, bits: Sequence[Bit], names: list[str]) -> Masks:
        """The masks of some bits alone. Those that look only at names do not need the entities."""
        plan = Plan(
            tuple(structs.replace(bit, clause=structs.replace(bit.clause, join=TRUE)) for bit in bits)
        )
        work = replace(self.work, plan=plan)
        if not work.paths() and not work.derivations:
            entities: Entities = BundledEntities(self.entities.source, [Entity(name) for name in names])
        else:
            entities = self.entities
        return _in_order(entities.masks(work, self.may_lack), names).side.masks


def _in_order(found: Gathered, names: list[str]) -> Gathered:
    """The same, those of these names first and in their order, so that decisions about them keep their place."""
    places = {name: place for place, name in enumerate(found.names)}
    old = [name for name in names if name in places]
    if old == found.names[: len(old)]:
        return found
    seen = set(old)
    order = [*old, *(name for name in found.names if name not in seen)]
    each = found.side.rows // len(found.names)
    rows = np.array([places[name] for name in order])[:, None] * each + np.arange(each)
    return Gathered(order, found.side.take(rows.reshape(-1)))


def _column(masks: Masks, bit: int) -> Masks:
    column: Masks = (masks[:, bit >> 3] >> (bit & 7) & 1).astype(np.uint8)
    return column


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(value)).hexdigest()[:32]
