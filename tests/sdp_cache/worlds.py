"""Random policies of every kind, and random changes of them, for caches to be tried on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from authz import AuthFabricError, Entity, Request
from pdp.abac.policy import Algorithm
from pdp.bundle.bundle import Bundle, File
from pdp.bundle.policy_set import PolicySet

SUBJECTS = ["ann", "amy", "bob", "bot-1", "bot-2"]
OBJECTS = ["/a", "/b", "/n/x", "/n/y", "/n/m/z"]
ACTIONS = ["read", "append", "write", "list"]
ROLES = ["r1", "r2", "r3", "r4"]
LABELS = ["low", "mid", "high", "high {a}", "mid {b}"]
SUBJECT_KEYS = [*SUBJECTS, "a*", "bot-*", "*"]
OBJECT_KEYS = [*OBJECTS, "/n/*", "/n/m/*", "*"]
MEANINGS = [
    {"read": ["read"], "append": ["append"], "write": ["write"]},
    {"read": ["read", "list"], "append": ["append"], "write": ["write"]},
    {"read": ["read"], "append": ["write"]},
    {"read": ["append"], "append": ["read", "list"], "write": ["write"]},
    {"write": ["read", "append"], "read": ["write"]},
]
KINDS = ["l", "l", "l", "ll", "ll", "lll", "r", "r", "r", "a", "ra", "rl", "al", "ral", "rall"]
KINDS += ["g", "g", "g", "gr", "gr", "ga", "gl", "gral"]
"""A letter for each set of rules: labels, roles, attribute policies, and such that grant to roles."""


@dataclass
class LabelFile:
    """One label policy, as it is written."""

    permits: bool
    meanings: dict[str, list[str]]
    attribute: bool
    subjects: dict[str, str] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        subjects: dict[str, object] = {"table": {"zoe": "low", **self.subjects}}
        objects: dict[str, object] = {"table": {"/zoo": "low", **self.objects}}
        if self.attribute:
            subjects["attribute"], objects["attribute"] = "clearance", "class"
        return json.dumps(
            {
                "levels": ["low", "mid", "high"],
                "categories": ["a", "b"],
                "dominance": "permits" if self.permits else "restricts",
                "actions": self.meanings,
                "subjects": subjects,
                "objects": objects,
            }
        )


class World:
    """Policies that change. Which kinds there are is settled at the beginning: a letter for each set of rules."""

    def __init__(self, seed: int, kinds: str = "", looked_up: bool | None = None) -> None:
        self._chance = chance = random.Random(seed)
        self._kinds = kinds or chance.choice(KINDS)
        self.looked_up = chance.random() < 0.4 if looked_up is None else looked_up
        """Whether PDPs look roles up; then what requests say of them does not count."""
        self._holders: dict[str, tuple[list[str], float]] = {}
        self._algorithm = chance.choice(list(Algorithm))
        self._rules = {self._rule() for _ in range(chance.randint(4, 16))}
        self._seniorities: set[str] = set()
        self._abac: dict[str, dict[str, object]] = {}
        self._labels: dict[str, LabelFile] = {}
        for number in range(self._kinds.count("l")):
            self._labels[f"l{number}"] = self._label_file()
        for _ in range(chance.randint(1, 5) + 6 * self._kinds.count("g")):
            self._alter_once()
        self.policies = self._read()

    def change(self) -> PolicySet:
        """Other policies, mostly by a single step; what the reader refuses is not tried."""
        for _ in range(self._chance.choice([1, 1, 1, 2, 5])):
            self._alter_once()
        try:
            self.policies = self._read()
        except AuthFabricError:
            self._seniorities.clear()  # the roles were above each other
            self.policies = self._read()
        return self.policies

    def request(self) -> Request:
        chance = self._chance
        subject: dict[str, object] = {}
        if set("rag") & set(self._kinds):
            subject["roles"] = chance.sample([*ROLES, "q(x)", "zz"], chance.randint(0, 2))
        if chance.random() < 0.05:
            subject["clearance"] = chance.choice([*LABELS, "cosmic"])
        classified = {"class": chance.choice(LABELS)} if chance.random() < 0.05 else {}
        context: dict[str, object] = {"hour": chance.choice([1, 9])} if chance.random() < 0.2 else {}
        return Request(
            Entity(chance.choice(SUBJECTS), subject),
            Entity(chance.choice(OBJECTS), classified),
            Entity(chance.choice(ACTIONS)),
            context,
        )

    def seen(self, request: Request, now: float) -> tuple[Request, float]:
        """The request as a PDP sees it that looks roles up, and until when it relies on what it found."""
        roles, until = self.roles(request.subject.id, now)
        attributes = {**request.subject.attributes, "roles": roles}
        return msgspec.structs.replace(request, subject=Entity(request.subject.id, attributes)), until

    def roles(self, subject: str, now: float) -> tuple[list[str], float]:
        """What PDPs that look roles up find for a subject, and until when that holds."""
        roles, until = self._holders.get(subject, ([], 0.0))
        if now >= until:
            roles, until = self._chance.sample([*ROLES, "q(x)", "zz"], self._chance.randint(0, 3)), now + 25
            self._holders[subject] = roles, until
        return roles, until

    def files(self) -> list[File]:
        """The policies as they are written."""
        provided = "provided: [subject.roles]\n" if self.looked_up else ""
        files = [File("bundle.yaml", f"algorithm: {self._algorithm.value}\n{provided}")]
        if self._abac:
            files.append(File("abac.json", json.dumps(list(self._abac.values()))))
        if "r" in self._kinds:
            lines = ["role r1, r2, r3, r4, q(x)", *sorted(self._seniorities), *sorted(self._rules)]
            files.append(File("roles.oasis", "\n".join(lines) + "\n"))
        files += [File(f"{name}.labels.yaml", each.text()) for name, each in self._labels.items()]
        return files

    def _read(self) -> PolicySet:
        return PolicySet.read(Bundle.of(self.files()))

    def _alter_once(self) -> None:
        steps: dict[str, Callable[[], None]] = {
            "l": self._alter_labels,
            "r": self._alter_roles,
            "a": self._alter_abac,
            "g": self._alter_grants,
        }
        steps[self._chance.choice(self._kinds)]()

    def _alter_labels(self) -> None:
        chance = self._chance
        name = chance.choice(sorted(self._labels))
        file, step = self._labels[name], chance.random()
        if step < 0.03:
            self._labels[name] = self._label_file()
        elif step < 0.05 and len(self._labels) > 1:
            del self._labels[name]
        elif step < 0.07 and len(self._labels) < 3:
            self._labels[f"l{chance.randrange(9)}"] = self._label_file()
        elif step < 0.09:
            file.meanings = chance.choice(MEANINGS)
        else:
            table, keys = chance.choice([(file.subjects, SUBJECT_KEYS), (file.objects, OBJECT_KEYS)])
            self._relabel(table, chance.choice(keys))

    def _relabel(self, table: dict[str, str], key: str) -> None:
        if self._chance.random() < 0.15:
            table.pop(key, None)
        else:
            table[key] = self._chance.choice(LABELS)

    def _label_file(self) -> LabelFile:
        chance = self._chance
        meanings = MEANINGS[0] if chance.random() < 0.6 else chance.choice(MEANINGS)
        file = LabelFile(chance.random() < 0.7, meanings, chance.random() < 0.3)
        for table, keys in ((file.subjects, SUBJECT_KEYS), (file.objects, OBJECT_KEYS)):
            table.update({key: chance.choice(LABELS) for key in keys if chance.random() < 0.7})
        return file

    def _alter_roles(self) -> None:
        chance = self._chance
        if chance.random() < 0.15:
            senior, junior = sorted(chance.sample(ROLES, 2))
            self._seniorities ^= {chance.choice([f"{senior} > {junior}", "q(_) > r4"])}
        elif self._rules and chance.random() < 0.4:
            self._rules.discard(chance.choice(sorted(self._rules)))
        else:
            self._rules.add(self._rule())

    def _rule(self) -> str:
        chance = self._chance
        role, thing = chance.choice([*((each, "") for each in ROLES), ("q(_)", ""), ("q(x)", "/n/{x}")])
        thing = thing or chance.choice([*OBJECTS, "/n/*"])
        constraint = ", [context.hour < 5]" if chance.random() < 0.05 else ""
        return f'{role}{constraint} |- privilege({chance.choice([*ACTIONS, "*"])}, "{thing}")'

    def _alter_abac(self) -> None:
        chance = self._chance
        name = f"p{chance.randrange(4)}"
        if chance.random() < 0.02:
            self._algorithm = chance.choice(list(Algorithm))
        elif chance.random() < 0.3:
            self._abac.pop(name, None)
        else:
            self._abac[name] = self._policy(name)

    def _alter_grants(self) -> None:
        """Attribute policies that grant something to roles, and now and then something else besides."""
        chance = self._chance
        name = f"g{chance.randrange(12)}"
        if chance.random() < 0.3:
            self._abac.pop(name, None)
        elif chance.random() < 0.03:
            self._abac[name] = self._policy(name)
        else:
            roles = chance.sample(ROLES, chance.choice([1, 1, 2]))
            self._abac[name] = {
                "uid": name,
                "effect": "allow",
                "targets": {
                    "resource_id": chance.choice([*OBJECTS, "/n/*"]),
                    "action_id": chance.sample(ACTIONS, 2),
                },
                "rules": {"subject": {"$.roles": {"condition": "AnyIn", "values": roles}}},
            }

    def _policy(self, name: str) -> dict[str, object]:
        chance = self._chance
        targets = {
            target: chance.choice(choices)
            for target, choices in (
                ("subject_id", [*SUBJECTS, "a*"]),
                ("resource_id", [*OBJECTS, "/n/*"]),
                ("action_id", ACTIONS),
            )
            if chance.random() < 0.6
        }
        rules: dict[str, object] = chance.choice(
            [
                {},
                {"subject": {"$.roles": {"condition": "AnyIn", "values": [chance.choice(ROLES)]}}},
                {"context": {"$.hour": {"condition": "Gt", "value": 3}}},
            ]
        )
        policy: dict[str, object] = {"uid": name, "targets": targets, "rules": rules}
        policy["effect"] = chance.choice(["allow", "deny"])
        policy["priority"] = chance.randrange(3)
        if chance.random() < 0.15:
            policy["obligations"] = [{"log": name}]
        return policy
