"""From a board to the snapshot that caches load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sdp_cache.snapshots import Origin, Precomputation, Tier
from spark_eval.evaluation.mask_algebra import Board, Turned
from spark_eval.plans import Classes, Plan, width

MAX_ROWS = 4096
"""Maximum bits of a mask in a snapshot; joins that would need more are left to the PDP."""


@dataclass(frozen=True, slots=True)
class Names:
    """Whom decisions are about."""

    subjects: Sequence[str]
    objects: Sequence[str]
    actions: Sequence[str]


def precomputation(
    plan: Plan, names: Names, subjects: Turned, permissions: Classes, origin: Origin
) -> Precomputation:
    """What goes into a snapshot: each row of the board is a bit there."""
    board = Board(plan, subjects, permissions.side, MAX_ROWS)
    owners = board.owners
    size = width(len(owners))
    return Precomputation(
        origin=origin,
        width=size,
        subjects=names.subjects,
        subject_masks=board.subject_masks().tobytes(),
        objects=names.objects,
        actions=names.actions,
        permission_masks=board.permission_masks()[permissions.members].tobytes(),
        tiers=[Tier(tier.ruling, _mask(owners, tier.bits, size)) for tier in plan.tiers(board.asking)],
        policies=[plan.bits[bit].policies[0] for bit in owners] if plan.named else (),
    )


def _mask(owners: list[int], bits: tuple[int, ...], size: int) -> bytes:
    """The rows that belong to these bits of the plan."""
    return np.packbits(np.isin(owners, bits), bitorder="little").tobytes().ljust(size, b"\0")
