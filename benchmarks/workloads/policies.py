"""Policies and requests to measure deciding with, in the one language they are then translated from."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, TypeAlias

from authz import Entity, Request

PolicyJson: TypeAlias = dict[str, Any]
ROLES = 100
PER_ROLE = 10


@dataclass(frozen=True, slots=True)
class Workload:
    policies: list[PolicyJson]
    requests: list[Request]


def _policy(uid: str, effect: str, targets: PolicyJson, **rules: PolicyJson) -> PolicyJson:
    return {"uid": uid, "effect": effect, "targets": targets, "rules": rules}


def _is(value: str) -> PolicyJson:
    return {"condition": "Equals", "value": value}


def projects(count: int, requests: int = 1000, seed: int = 1) -> Workload:
    """Attribute policies, five for each project: readers, editors, its owner, its public part, its archive."""
    policies: list[PolicyJson] = []
    for n in range(count // 5):
        place, dept = f"/projects/p{n}/*", {"$.dept": _is(f"d{n}")}
        level = {"$.level": {"condition": "Gte", "value": 3}}
        read, write = (
            {"resource_id": place, "action_id": "read"},
            {"resource_id": place, "action_id": "write"},
        )
        change = {"resource_id": place, "action_id": ["write", "delete"]}
        policies += [
            _policy(f"{n}-readers", "allow", read, subject=dept),
            _policy(f"{n}-editors", "allow", write, subject={**dept, **level}),
            _policy(f"{n}-owner", "allow", {"resource_id": place, "subject_id": f"owner{n}"}),
            _policy(f"{n}-public", "allow", read, resource={"$.visibility": _is("public")}),
            _policy(f"{n}-archive", "deny", change, resource={"$.status": _is("archived")}),
        ]
    return Workload(policies, _project_requests(count // 5, requests, random.Random(seed)))


def _project_requests(count: int, requests: int, pick: random.Random) -> list[Request]:
    made = []
    for _ in range(requests):
        n = pick.randrange(count)
        home = n if pick.random() < 0.7 else pick.randrange(count)
        subject = f"owner{n}" if pick.random() < 0.1 else f"user{pick.randrange(10_000)}"
        made.append(
            Request(
                Entity(subject, {"dept": f"d{home}", "level": pick.randrange(6)}),
                Entity(
                    f"/projects/p{n}/folder/{pick.randrange(100)}",
                    {
                        "status": pick.choice(["active", "active", "archived"]),
                        "visibility": pick.choice(["internal", "internal", "public"]),
                    },
                ),
                Entity(pick.choice(["read", "read", "write", "delete"])),
                {},
            )
        )
    return made


def roles(requests: int = 1000, seed: int = 2) -> Workload:
    """Role-based access: a role may do some actions to ten objects; a subject has three of the roles."""
    pick = random.Random(seed)
    granted = {f"role{n}": _grant(pick) for n in range(ROLES)}
    policies = [
        _policy(
            role,
            "allow",
            {"resource_id": objects, "action_id": actions},
            subject={"$.roles": {"condition": "AnyIn", "values": [role]}},
        )
        for role, (objects, actions) in granted.items()
    ]
    made = []
    for _ in range(requests):
        role = pick.choice(list(granted))
        objects, actions = granted[role]
        held = pick.sample(list(granted), 3)
        if pick.random() < 0.6:
            held[0] = role
        held = sorted(set(held))
        subject = Entity("user-" + "-".join(held), {"roles": held})
        made.append(Request(subject, Entity(pick.choice(objects)), Entity(pick.choice(actions)), {}))
    return Workload(policies, made)


def _grant(pick: random.Random) -> tuple[list[str], list[str]]:
    objects = [f"/objects/{n}" for n in pick.sample(range(300), PER_ROLE)]
    return objects, pick.choice([["read"], ["read", "write"], ["read", "write", "delete"]])


def unindexable(count: int, requests: int = 200, seed: int = 3) -> Workload:
    """Policies that each look at a number anyone may have, so that every one must be tried."""
    pick = random.Random(seed)
    policies = [
        _policy(f"{n}", "allow", {}, context={"$.load": {"condition": "Gt", "value": 1000 + n}})
        for n in range(count)
    ]
    made = [
        Request(Entity("ann"), Entity("/x"), Entity("read"), {"load": pick.randrange(1010)})
        for _ in range(requests)
    ]
    return Workload(policies, made)
