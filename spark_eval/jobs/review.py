"""Access review: what everyone may do, held against what they have done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from authz import Entity
from spark_eval.analysis import Census, Counts, Log, Review, Reviewed, RoleAccess, Separation
from spark_eval.entities import BundledEntities, Inputs, MaskWork, Population, populate
from spark_eval.evaluation import Decisions, Words, count_tiles, turn
from spark_eval.plans import Part, derivations
from spark_eval.runtime import Sessions, Steps
from spark_eval.stores import Requests


@dataclass(frozen=True, slots=True)
class ReviewJob:
    """Whom to review, against which log, and which duties nobody may have at once."""

    inputs: Inputs
    log: str | None = None
    """Where the requests are that were asked; None if that is not known."""
    separations: Sequence[Separation] = ()


def review_access(job: ReviewJob, session: Sessions, steps: Steps) -> Review:
    """Everything that a review tells."""
    with steps.step("evaluating policies over entities", 2) as advance:
        population = populate(job.inputs)
        advance(1)
        roles = job.inputs.subjects.attributes(frozenset({"roles"}))
        advance(1)
    reviewed = _prepare(job, population, session)
    census = Census.of(reviewed.decisions, reviewed.members, reviewed.log)
    tallies = count_tiles(census, "counting decisions", session, steps)
    with steps.step("looking at roles and duties", 2) as advance:
        by_role = _roles(job.inputs, population, reviewed, _holders(population.subjects.names, roles))
        advance(1)
        conflicts = reviewed.conflicts(job.separations)
        advance(1)
    return structs.replace(
        reviewed.summary(Counts.of(tallies, census)),
        roles=by_role,
        conflicts=conflicts,
        warnings=population.warnings + reviewed.uncovered(job.separations),
    )


def _prepare(job: ReviewJob, population: Population, session: Sessions) -> Reviewed:
    classes = population.permissions.side.classes(population.plan)
    subjects = turn(population.subjects.side, len(population.plan.bits))
    decisions = Decisions(population.plan, subjects, classes.side, np.arange(classes.side.rows))
    names = population.subjects.names
    permissions = [(name, action) for name in population.permissions.names for action in population.actions]
    log = None if job.log is None else _read_log(Requests.open(session(), job.log), names, permissions)
    return Reviewed(decisions, names, permissions, classes.members, log)


def _read_log(requests: Requests, names: Sequence[str], permissions: Sequence[tuple[str, str]]) -> Log:
    """What was used, by row; whom and what we do not know is counted."""
    people = {name: row for row, name in enumerate(names)}
    things = {permission: row for row, permission in enumerate(permissions)}
    used = requests.allowed()
    columns = (used.column(name).to_pylist() for name in ("subject", "object", "action"))
    found = [(people.get(s), things.get((o, a))) for s, o, a in zip(*columns, strict=True)]
    known = [(s, p) for s, p in found if s is not None and p is not None]
    rows = np.array(known, np.int64).reshape(-1, 2)
    return Log(rows[:, 0], rows[:, 1], len(found) - len(known))


def _holders(names: Sequence[str], attributes: Mapping[str, Mapping[str, object]]) -> dict[str, Words]:
    """Who has each role."""
    held: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        roles = attributes.get(name, {}).get("roles")
        for role in {each for each in roles if isinstance(each, str)} if isinstance(roles, list) else ():
            held.setdefault(role, []).append(row)
    found = {}
    for role in sorted(held):
        bits = np.zeros(-(-len(names) // 64) * 64, np.uint8)
        bits[held[role]] = 1
        found[role] = np.packbits(bits, bitorder="little").view(np.uint64)
    return found


def _roles(
    inputs: Inputs, population: Population, reviewed: Reviewed, holders: dict[str, Words]
) -> tuple[RoleAccess, ...]:
    """What each role grants to somebody who has nothing else."""
    if not holders:
        return ()
    work = MaskWork(population.plan, Part.SUBJECT, derivations=derivations(inputs.policies))
    # The names keep the order of the roles, and are nobody's.
    alone = [Entity(f"whoever is {role}", {"roles": [role]}) for role in holders]
    gathered = BundledEntities("roles", alone).masks(work, [str(path) for path in work.paths()])
    return reviewed.roles(turn(gathered.side, len(population.plan.bits)), holders)
