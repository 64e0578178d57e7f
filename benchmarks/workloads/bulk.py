"""Populations for decisions in bulk: role rules over people with job profiles, and a hundred attribute policies."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from authz import Entity
from authz.decision import Effect
from authz.predicate import And, Equal, In, Order, Overlaps, Predicate, Relate
from authz.predicate import Path as Attribute
from pdp.abac import Policy
from pdp.bundle import Bundle, File, PolicySet
from spark_eval.entities import Inputs, StoredEntities
from spark_eval.runtime import Sessions

ACTIONS = ("read", "write", "share", "delete")
ROLES = 128
PROFILES = 300
POLICIES = 100


Grant = tuple[str, str, int]
"""Role, action and number of the object."""


@dataclass(frozen=True, slots=True)
class Population:
    """Subjects and objects in files, and the policies about them."""

    folder: Path
    policies: PolicySet
    subjects: int
    objects: int
    grants: tuple[Grant, ...] = ()
    """Which role may do what."""

    @property
    def decisions(self) -> int:
        return self.subjects * self.objects * len(ACTIONS)

    def inputs(self, session: Sessions) -> Inputs:
        people, things = (
            StoredEntities(str(self.folder / f"{name}.parquet"), session) for name in ("people", "things")
        )
        return Inputs(self.policies, people, things, tuple(map(Entity, ACTIONS)))


def by_roles(folder: Path, subjects: int, objects: int, seed: int = 1) -> Population:
    """Everyone has the roles of a job, some one more; each permission goes to one to six roles."""
    chance = random.Random(seed)
    names = [f"role{number}" for number in range(ROLES)]
    profiles = [chance.sample(names, chance.randint(2, 6)) for _ in range(PROFILES)]
    held = [
        sorted({*chance.choice(profiles), *chance.sample(names, chance.random() < 0.1)})
        for _ in range(subjects)
    ]
    write(folder / "people.parquet", {"id": [f"user{n}" for n in range(subjects)], "roles": held})
    write(folder / "things.parquet", {"id": [f"/files/{n}" for n in range(objects)]})
    grants = tuple(
        (role, action, number)
        for number in range(objects)
        for action in ACTIONS
        for role in chance.sample(names, chance.randint(1, 6))
    )
    return Population(folder, role_rules(grants), subjects, objects, grants)


def by_kinds(folder: Path, subjects: int, objects: int, kinds: int = 1_000, seed: int = 4) -> Population:
    """A large population: each subject has the roles of a job, and a role may read some kinds of objects."""
    chance, dice = random.Random(seed), np.random.default_rng(seed)
    names = [f"role{number}" for number in range(ROLES)]
    profiles = pa.array([chance.sample(names, chance.randint(2, 6)) for _ in range(PROFILES)])
    held = profiles.take(pa.array(dice.integers(0, PROFILES, subjects)))
    of_kind = pa.array([f"kind{number}" for number in range(kinds)]).take(
        pa.array(dice.integers(0, kinds, objects))
    )
    write(folder / "people.parquet", {"id": numbered("user", subjects), "roles": held})
    write(folder / "things.parquet", {"id": numbered("/files/", objects), "kind": of_kind})
    policies = tuple(
        Policy(
            role,
            Effect.ALLOW,
            And(
                (
                    Overlaps(Attribute("subject", ("roles",)), (role,)),
                    In(Attribute("object", ("kind",)), tuple(f"kind{n}" for n in some)),
                )
            ),
        )
        for role in names
        for some in [chance.sample(range(kinds), 24)]
    )
    return Population(folder, PolicySet(policies=policies), subjects, objects)


def numbered(prefix: str, count: int) -> pa.Array:
    """Names with numbers."""
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(np.arange(count)), pa.string()), "")


def role_rules(grants: Sequence[Grant]) -> PolicySet:
    """The rules by which roles have permissions."""
    lines = [f"role role{number}" for number in range(ROLES)]
    lines += [f'{role} |- privilege({action}, "/files/{number}")' for role, action, number in grants]
    return PolicySet.read(Bundle.of([File("roles.oasis", "\n".join(lines) + "\n")]))


def by_attributes(folder: Path, subjects: int, objects: int, seed: int = 2) -> Population:
    """Policies that look at the subject, the object, the action, and in part compare departments and levels."""
    chance = random.Random(seed)
    people = {
        "id": [f"user{n}" for n in range(subjects)],
        "dept": [f"dept{chance.randrange(20)}" for _ in range(subjects)],
        "level": [chance.randrange(10) for _ in range(subjects)],
        "city": [f"city{chance.randrange(50)}" for _ in range(subjects)],
    }
    things = {
        "id": [f"/files/{n}" for n in range(objects)],
        "dept": [f"dept{chance.randrange(20)}" for _ in range(objects)],
        "kind": [f"kind{chance.randrange(25)}" for _ in range(objects)],
        "secrecy": [chance.randrange(10) for _ in range(objects)],
    }
    write(folder / "people.parquet", people)
    write(folder / "things.parquet", things)
    policies = tuple(_policy(number, chance) for number in range(POLICIES))
    return Population(folder, PolicySet(policies=policies), subjects, objects)


def _policy(number: int, chance: random.Random) -> Policy:
    denies = number % 10 == 0
    about_subject: tuple[Predicate, ...] = (
        Equal(Attribute("subject", ("dept",)), f"dept{chance.randrange(20)}"),
        In(Attribute("subject", ("city",)), tuple(f"city{n}" for n in chance.sample(range(50), 5))),
        Order(Attribute("subject", ("level",)), ">=", chance.randrange(1, 9)),
    )
    terms: list[Predicate] = [
        In(Attribute("action"), tuple(chance.sample(ACTIONS, chance.randint(1, 2)))),
        Equal(Attribute("object", ("kind",)), f"kind{chance.randrange(25)}"),
        chance.choice(about_subject),
    ]
    if denies:
        terms.append(Order(Attribute("object", ("secrecy",)), ">=", 8))
    elif number % 5 == 1:
        terms.append(Relate(Attribute("subject", ("dept",)), "==", Attribute("object", ("dept",))))
    return Policy(f"policy{number}", Effect.DENY if denies else Effect.ALLOW, And(tuple(terms)))


def write(path: Path, columns: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(columns)), path)
