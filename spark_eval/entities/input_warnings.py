"""What is probably a mistake in what a job was asked: names that no policy knows, attributes that nobody has."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from authz import Entity
from authz.predicate import Equal, In, Path, comparisons, paths
from authz.predicate.values import dig
from spark_eval.columns import Outcomes
from spark_eval.entities.gathering import Gathered
from spark_eval.entities.mask_tasks import MaskWork
from spark_eval.plans import Clause, Plan

ACTION = Path("action")
SHOWN = 5
"""Maximum names of actions that a warning lists."""


def oversights(works: Sequence[MaskWork], permissions: Gathered, may_lack: Sequence[str]) -> tuple[str, ...]:
    """What to warn of, a sentence each; the works are how entities were evaluated, with the permissions last."""
    plan, actions = works[-1].plan, works[-1].actions
    looked_at = {*plan.paths("action"), *(path for work in works for path in work.paths())}
    return (
        *_idle_actions(plan, permissions, [each.id for each in actions]),
        *_lacking_actions(plan, actions, may_lack),
        *_unused_leave({str(path) for path in looked_at}, may_lack),
    )


def _idle_actions(plan: Plan, permissions: Gathered, actions: Sequence[str]) -> Iterator[str]:
    """Actions to which no policy applies, with whatever object: everyone is denied them."""
    masks = permissions.side.masks
    held: Outcomes = np.any(masks.reshape(-1, len(actions), masks.shape[1]), axis=(0, 2))
    named = _named_actions(plan)
    for number in np.flatnonzero(~held).tolist():
        action = actions[number]
        near = difflib.get_close_matches(action, named, 1)
        if near:
            hint = f": is `{near[0]}` meant?"
        elif named:
            more = ", ..." if len(named) > SHOWN else ""
            hint = f"; they name {', '.join(f'`{each}`' for each in named[:SHOWN])}{more}"
        else:
            hint = ""
        yield f"no policy applies to the action `{action}` with any of the objects{hint}"


def _named_actions(plan: Plan) -> list[str]:
    """The actions that policies name."""
    found: set[str] = set()
    for bit in plan.bits:
        for test in comparisons(bit.clause.permission):
            if test.path == ACTION and isinstance(test, (Equal, In)):
                values = test.values if isinstance(test, In) else (test.value,)
                found.update(value for value in values if isinstance(value, str))
    return sorted(found)


def _lacking_actions(plan: Plan, actions: Sequence[Entity], may_lack: Sequence[str]) -> Iterator[str]:
    """Attributes of actions that policies look at and no action has; those of entities are refused at reading."""
    for path in plan.paths("action"):
        lacking = path.keys and all(dig(each.attributes, path.keys) is None for each in actions)
        if lacking and str(path) not in may_lack:
            policy = next(bit.policies[0] for bit in plan.bits if path in _paths(bit.clause))
            yield f"no action has `{path}`, which the policy `{policy}` looks at"


def _paths(clause: Clause) -> set[Path]:
    return {*paths(clause.permission), *paths(clause.join)}


def _unused_leave(looked_at: Collection[str], may_lack: Sequence[str]) -> Iterator[str]:
    """Attributes that may be lacking, and that no policy looks at anyway."""
    for name in may_lack:
        if name not in looked_at:
            yield f"no policy looks at `{name}`, which `--may-lack` names"
