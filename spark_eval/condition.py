"""Under which condition somebody who must ask is allowed: what is left of the policies once both sides are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from authz.predicate import FALSE, TRUE, And, Not, Or, Predicate, covers
from pdp.source import Effect
from sdp_cache.snapshot import Ruling
from spark_eval.board import Step


def allowing(
    steps: Sequence[Step], matching: Collection[int], condition: Callable[[int], Predicate]
) -> Predicate:
    """When a subject in these rows is allowed. `condition` says what a row that asks depends on."""
    found: Predicate = FALSE
    for tier, rows in reversed(steps):
        held = [row for row in rows.tolist() if row in matching]
        if not held:
            continue
        if tier.ruling is not Ruling.ASK:
            found = TRUE if tier.effect is Effect.ALLOW else FALSE
        else:
            applies = _or([condition(row) for row in held])
            found = _or([applies, found]) if tier.effect is Effect.ALLOW else _and(Not(applies), found)
    return found


def equivalent(one: Predicate, other: Predicate) -> bool:
    """Whether both hold of the same requests. False may also mean: not known."""
    return one == other or (covers(one, other) and covers(other, one))


def _or(terms: Sequence[Predicate]) -> Predicate:
    several = tuple(dict.fromkeys(term for term in terms if term != FALSE))
    if TRUE in several:
        return TRUE
    return several[0] if len(several) == 1 else Or(several)


def _and(one: Predicate, other: Predicate) -> Predicate:
    return FALSE if other == FALSE else one if other == TRUE else And((one, other))
