"""A small clinic: policies of every kind, entities in files, and what the engine says of every request."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from authz import Entity, Request
from pdp.bundle.bundle_store import read_folder
from pdp.bundle.policy_set import PolicySet
from spark_eval.entities.population import Inputs
from spark_eval.entities.store import StoredEntities

ABAC = """
- uid: own-department
  effect: allow
  targets: {action_id: read}
  rules:
    subject: {$.dept: {condition: EqualsAttribute, ace: resource, path: $.dept}}
- uid: public
  effect: allow
  targets: {resource_id: /public/*, action_id: read}
  rules: {}
- uid: frozen
  effect: deny
  targets: {action_id: [write, delete]}
  rules:
    resource: {$.state: {condition: Equals, value: frozen}}
- uid: night
  effect: allow
  targets: {resource_id: /wards/*, action_id: write}
  rules:
    subject: {$.level: {condition: Gte, value: 2}}
    context: {$.shift: {condition: Equals, value: night}}
"""
ROLES = """
role doctor
role nurse
role chief
chief > doctor
doctor |- privilege(read|write, "/wards/*")
nurse |- privilege(read, "/wards/*")
chief |- privilege(delete, "/wards/*")
"""
PROVIDED = ("subject.dept", "subject.level", "subject.roles", "object.dept", "object.state")
ACTIONS = (Entity("read"), Entity("write"), Entity("delete"))
CONTEXTS = ({}, {"shift": "night"}, {"shift": "day"})


def people(count=40):
    roles = [["doctor"], ["nurse"], ["chief", "nurse"], [], None]
    return [
        {"id": f"user{n:03}", "dept": f"d{n % 4}", "level": n % 5, "roles": roles[n % len(roles)]}
        for n in range(count)
    ]


def things(count=12):
    places = ["/wards", "/public", "/files"]
    return [
        {"id": f"{places[n % 3]}/{n}", "dept": f"d{n % 5}", "state": "frozen" if n % 4 == 0 else "open"}
        for n in range(count)
    ]


def write_lines(path: Path, entities) -> None:
    path.write_text("\n".join(map(json.dumps, entities)))


class Clinic:
    """A folder with policies and entities."""

    def __init__(self, folder: Path, spark) -> None:
        self.folder = folder
        self.spark = spark
        self.policies = folder / "policies"
        self.policies.mkdir()
        (self.policies / "bundle.yaml").write_text(f"provided: [{', '.join(PROVIDED)}]")
        self.set_policies(ABAC, ROLES)
        write_lines(folder / "people.jsonl", people())
        write_lines(folder / "things.jsonl", things())

    def set_policies(self, abac: str, roles: str = "") -> None:
        (self.policies / "abac.yaml").write_text(abac)
        rules = self.policies / "clinic.oasis"
        rules.unlink(missing_ok=True)
        if roles:
            rules.write_text(roles)

    def session(self):
        if self.spark is None:
            raise AssertionError("no Spark is needed here")
        return self.spark

    @property
    def policy_set(self) -> PolicySet:
        return PolicySet.read(read_folder(self.policies))

    def inputs(self) -> Inputs:
        stored = [
            StoredEntities(str(self.folder / each), self.session) for each in ("people.jsonl", "things.jsonl")
        ]
        return Inputs(self.policy_set, *stored, ACTIONS)

    def entities(self, name: str) -> list[Entity]:
        lines = map(json.loads, (self.folder / name).read_text().splitlines())
        return [Entity(each.pop("id"), each) for each in lines]

    def cases(self):
        """Everyone with everything."""
        return itertools.product(self.entities("people.jsonl"), self.entities("things.jsonl"), ACTIONS)

    def decisions(self):
        """What the engine says of everyone and everything: allow, deny, or ask if it depends on the context."""
        engine = self.policy_set.engine()
        for subject, object_, action in self.cases():
            effects = {
                engine.evaluate(Request(subject, object_, action, context)).effect for context in CONTEXTS
            }
            yield (subject.id, object_.id, action.id), effects.pop() if len(effects) == 1 else "ask"
