"""Role rules and label policies, written out as rules over entities, decide as the engine does."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz import Entity, Request
from authz.decision import Effect
from authz.predicate import Equal, Path
from pdp.abac.policy import Algorithm, Policy
from pdp.bundle.manifest import Manifest
from pdp.bundle.policy_set import PolicySet
from pdp.labels.reader import read_label_policy
from pdp.oasis import Domains, parse
from sdp_cache.snapshots.snapshot import Ruling
from spark_eval.columns.table import DerivedSource, JsonSource, Table
from spark_eval.evaluation.mask_algebra import Board, turn
from spark_eval.plans import policy_rules as rules
from spark_eval.plans.masks import evaluate
from spark_eval.plans.plan import make_plan
from spark_eval.plans.policy_rules import derivations, needs_roles, rules_of
from spark_eval.plans.split import Part
from tests.pdp.labels.test_labels import POLICY

RULES = """
role doctor(d)
role nurse(w)
role staff
role chief
chief > staff
doctor(d) > staff

privileges: staff |- privilege(read, "/wards/*/plan")
own: doctor(d) |- privilege(read|write, "/doctors/{d}/notes")
ward: nurse(w), [context.shift == w] |- privilege(read, "/wards/{w}/beds")
grade: doctor(d), [subject.grade >= 3] |- privilege(write, "/wards/**")
room: nurse(w), [room == subject.room] |- privilege(list, "/rooms/{room}")
all: chief |- privilege(*, "/wards/a/**")
"""
"""Every kind of rule: seniority, parameters in names, context, attributes, a variable only the object binds."""

TEXTS = ["staff", "chief", "doctor(ann)", "doctor(7)", "nurse(a)", "nurse(b)", "not a role (", "unknown"]
OBJECTS = [
    "/wards/a/plan",
    "/wards/a/beds",
    "/wards/b/beds",
    "/doctors/ann/notes",
    "/doctors/7/notes",
    "/rooms/a",
    "/wards/a/../x",
    "elsewhere",
]
ACTIONS = ["read", "write", "list", "other"]
CONTEXTS = [{}, {"shift": "a"}, {"shift": "b"}]


ROLES = Domains([parse(RULES)])


class Judged:
    """Policies and entities, by masks and by the engine."""

    def __init__(self, policies, subjects, objects, actions=ACTIONS):
        self.engine = policies.engine()
        self.subjects, self.objects, self.actions = subjects, objects, actions
        roles = {
            text for each in subjects for text in each.attributes.get("roles") or [] if isinstance(text, str)
        }
        self.plan = make_plan(rules_of(policies, roles))
        derived = derivations(policies)
        people = self.table("subject", subjects, derived)
        permissions = self.table("object", objects, derived).cross(
            Table(len(actions), {"action": JsonSource([{}] * len(actions), actions)})
        )
        self.board = Board(
            self.plan,
            turn(evaluate(self.plan, people, Part.SUBJECT), len(self.plan.bits)),
            evaluate(self.plan, permissions, Part.PERMISSION),
        )

    def table(self, root, entities, derived):
        source = JsonSource([each.attributes for each in entities], [each.id for each in entities])
        more = {name: DerivedSource(source, each) for name, each in derived.items() if name.startswith(root)}
        return Table(len(entities), {root: source, **more})

    def ruling(self, subject, permission):
        allowed, asking = (int(each[0]) >> subject & 1 for each in self.board.ruling(permission))
        return Ruling.ASK if asking else Ruling(allowed)

    def check(self):
        asked = 0
        permissions = list(itertools.product(self.objects, self.actions))
        for (s, subject), (p, (object_, action)) in itertools.product(
            enumerate(self.subjects), enumerate(permissions)
        ):
            decisions = {
                self.engine.evaluate(Request(subject, object_, Entity(action), context)).allowed
                for context in CONTEXTS
            }
            ruling = self.ruling(s, p)
            if ruling is Ruling.ASK:
                asked += 1
            else:
                assert decisions == {ruling is Ruling.ALLOW}, (subject, object_, action)
        return asked


people = st.lists(
    st.builds(
        lambda roles, grade, room: {"roles": roles, "grade": grade, "room": room},
        st.one_of(st.none(), st.just("staff"), st.lists(st.sampled_from([*TEXTS, 7]), max_size=3)),
        st.sampled_from([None, 2, 3]),
        st.sampled_from([None, "a"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(people, st.sampled_from(Algorithm), st.sampled_from(Effect))
def test_roles_beside_attribute_policies_are_decided_as_the_engine_decides(several, algorithm, effect):
    extra = Policy("x", effect, Equal(Path("subject", ("grade",)), 2))
    policies = PolicySet(Manifest(algorithm=algorithm), (extra,), ROLES)
    subjects = [Entity(f"s{n}", each) for n, each in enumerate(several)]
    Judged(policies, subjects, [Entity(each) for each in OBJECTS]).check()


def test_only_what_depends_on_the_context_or_an_unbound_variable_is_asked():
    subjects = [Entity("ann", {"roles": [text], "grade": 3, "room": "a"}) for text in TEXTS]
    judged = Judged(PolicySet(roles=ROLES), subjects, [Entity(each) for each in OBJECTS])
    assert judged.check() == 4  # beds of two wards by their nurses, and one room by both


def test_a_role_with_very_many_instances_is_asked(monkeypatch):
    monkeypatch.setattr(rules, "MAX_INSTANCES", 2)
    subjects = [Entity(f"s{n}", {"roles": [f"doctor(s{n})"]}) for n in range(4)]
    objects = [Entity("/doctors/s1/notes"), Entity("/wards/a/plan")]
    judged = Judged(PolicySet(roles=ROLES), subjects, objects)
    assert judged.check() == 8  # reading and writing the notes, whoever asks
    assert len(judged.plan.bits) < 8


GRANTS = """
role staff
role chief
chief > staff
role nurse(w)
staff |- privilege(read, "/rooms/a")
staff |- privilege(read|write, "elsewhere")
staff |- privilege(*, "/wards/a/plan")
chief |- privilege(read, "/rooms/a")
chief |- privilege(read, "/wards/a/beds")
nurse(w) |- privilege(list, "/rooms/a")
nurse(a) |- privilege(list, "/wards/b/beds")
"""


@settings(max_examples=25, deadline=None)
@given(people, st.sampled_from([RULES, GRANTS, RULES + GRANTS.split("role nurse(w)")[1]]))
def test_rules_that_are_too_many_to_be_told_apart_are_decided_as_the_engine_decides(several, text):
    subjects = [Entity(f"s{n}", each) for n, each in enumerate(several)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "MAX_NAMED", 0)
        judged = Judged(PolicySet(roles=Domains([parse(text)])), subjects, [Entity(each) for each in OBJECTS])
    judged.check()


def test_rules_that_are_too_many_to_be_told_apart_become_one_for_each_role(monkeypatch):
    monkeypatch.setattr(rules, "MAX_NAMED", 3)
    (found,) = rules_of(PolicySet(roles=Domains([parse(GRANTS)])), ["staff", "chief"])
    assert not found.policies
    plan = make_plan([found])
    assert len(plan.bits) == 2  # who is staff, chiefs included, and who is chief
    assert sorted(name for bit in plan.bits for name in bit.policies) == [f"roles#{n}" for n in range(1, 6)]


labels = st.sampled_from([None, "public", "internal", "secret {heart}", {"level": "secret"}, "no such", 3])


@settings(max_examples=25, deadline=None)
@given(st.lists(labels, min_size=1, max_size=4), st.lists(labels, min_size=1, max_size=4), st.booleans())
def test_labels_are_decided_as_the_engine_decides(clearances, classifications, permits):
    policy = POLICY if permits else POLICY.replace("permits", "restricts")
    policies = PolicySet(roles=ROLES, labels={"labels": read_label_policy(policy)})
    subjects = [Entity(f"s{n}", {"clearance": each, "roles": ["staff"]}) for n, each in enumerate(clearances)]
    subjects += [Entity("ann"), Entity("bot-1", {"clearance": "secret"})]
    objects = [Entity(f"o{n}", {"classification": each}) for n, each in enumerate(classifications)]
    objects += [Entity("/open/heart/1"), Entity("/open/../1"), Entity("exact"), Entity("/wards/a/plan")]
    actions = ["read", "append", "write", "other"]
    assert Judged(policies, subjects, objects, actions).check() == 0


def test_roles_are_needed_for_role_rules_only():
    assert needs_roles(PolicySet(roles=ROLES))
    assert not needs_roles(PolicySet())
