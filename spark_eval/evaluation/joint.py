"""Two plans over one population: each bit that both have is evaluated once, and who has which role beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from authz.decision import Effect
from authz.predicate import FALSE, Overlaps
from pdp.oasis import ROLES
from spark_eval.evaluation.mask_algebra import Turned
from spark_eval.plans import Bit, Clause, Keys, Masks, Plan, Rank, Side

MAX_ROLES = 1024
"""Maximum roles that are told apart."""


@dataclass(frozen=True, slots=True)
class Joint:
    """A plan with the bits of two, and for each bit of theirs its number here."""

    plan: Plan
    before: Plan
    after: Plan
    old: tuple[int, ...]
    new: tuple[int, ...]
    roles: dict[str, int]
    """The bits that only tell who has a role."""

    @classmethod
    def of(cls, before: Plan, after: Plan, roles: Iterable[str] = ()) -> Joint:
        places: dict[tuple[Effect, Rank, Clause], int] = {}
        bits: list[Bit] = []
        numbers = []
        for bit in (*before.bits, *after.bits):
            key = (bit.effect, bit.rank, bit.clause)
            if key not in places:
                places[key] = len(bits)
                bits.append(bit)
            numbers.append(places[key])
        known = {role: len(bits) + number for number, role in enumerate(sorted(roles)[:MAX_ROLES])}
        bits += [_has_role(role) for role in known]
        count = len(before.bits)
        return cls(Plan(tuple(bits)), before, after, tuple(numbers[:count]), tuple(numbers[count:]), known)

    def changed(self, permissions: Side) -> list[int]:
        """The permissions about which not the same bits decide before and after."""
        differing = np.zeros(len(self.plan.bits), np.bool_)
        differing[list(set(self.old) ^ set(self.new))] = True
        mask = np.packbits(differing, bitorder="little")
        return np.flatnonzero(np.any(permissions.masks[:, : len(mask)] & mask, axis=1)).tolist()

    def subjects(self, turned: Turned, plan: Plan, bits: Sequence[int]) -> Turned:
        """The subjects under one of the two plans, whose bits have these numbers here."""
        return Turned(turned.count, turned.words[list(bits)], self._keys(turned.keys, plan))

    def permissions(self, side: Side, plan: Plan, bits: Sequence[int]) -> Side:
        """The permissions under one of the two plans."""
        held = np.unpackbits(side.masks, axis=1, bitorder="little")[:, list(bits)]
        masks: Masks = np.packbits(held, axis=1, bitorder="little")
        return Side(
            masks if masks.shape[1] else np.zeros((side.rows, 1), np.uint8), self._keys(side.keys, plan)
        )

    def _keys(self, keys: tuple[Keys, ...], plan: Plan) -> tuple[Keys, ...]:
        return tuple(keys[self.plan.joins.index(join)] for join in plan.joins)


def _has_role(role: str) -> Bit:
    return Bit((role,), Effect.ALLOW, Rank(3, 0, 0), Clause(Overlaps(ROLES, (role,)), FALSE))
